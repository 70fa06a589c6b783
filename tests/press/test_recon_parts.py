"""Pages that are written from results: complete, exact, and an error where something is missing."""

from __future__ import annotations

import json
import re
import shutil
import sys

import nbformat
import pytest

from companion.chapters import ROOT
from companion.chapters.catalogue import ANSWERS, Row, best
from companion.chapters.claims import PAPERS, claims_page
from companion.press.html import build_html
from companion.press.publish import keep
from companion.press.runner import ReconRunError
from recon.cli import main
from recon.errors import ReconError

sys.path.append(str(ROOT / "book" / "_ext"))

from claim_parts import (
    FAILED,
    STOPPING,
    Sources,
    cells,
    checked,
    escaped,
)  # noqa: E402
from recon_parts import opening, part  # noqa: E402

PUBLISHED = ROOT / "book" / "executed"


FAILURES = (FAILED, STOPPING)


#: numbers that are names, or that only say where
NAMES = re.compile(
    r"\b(?:figs?|figures?|tables?|chapters?|appendix|appendices|eqs?|equations?|sections?|theorems?|propositions?|steps?"
    r"|exercises?|layers?|class|seeds?|claim|level|run|row)\.? ?"
    r"\(?[0-9A-Z]+(?:[.–-]\d+)*[a-z]?\)?(?:(?:, | and | to )\d+[a-z]?\b)*"
    r"|§+ ?[\dA-Z.]+(?:(?:, | and )[\dA-Z.]+)*|\(\d+\)|\b(?:19|20)\d\d\b|\b\d+ ?[×x] ?\d+(?: ?[×x]"
    r" ?\d+)*\b"
    r"|\b[A-Za-z]+[-‑]?\d+[\w-]*\b|\b\d+-(?:bit|nearest)\b|\bfloat\d+|\bL-?BFGS\b|\d+(?:st|nd|rd|th)\b|\b[0-9]+[DdW]\b",
    re.IGNORECASE,
)
SOURCES = Sources(ROOT, PUBLISHED / "results", sorted(PUBLISHED.glob("*.ipynb")))


@pytest.fixture
def copy(tmp_path):
    """The published results and the catalogue, to be damaged."""
    shutil.copytree(PUBLISHED / "results", tmp_path / "results")
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "book" / "paper-size", tmp_path / "book" / "paper-size")
    shutil.copy2(ROOT / "book" / "claims.yml", tmp_path / "book")
    (tmp_path / "benchmarks").mkdir()
    return Sources(tmp_path, tmp_path / "results", SOURCES.chapters)


def test_every_claim_of_the_catalogue_has_its_result_and_the_other_way_round():
    listed = claims_page(ROOT)
    ids = [name for paper in PAPERS for name in listed[paper]]
    assert len(ids) == len(set(ids)) > 60
    table = checked(SOURCES)
    assert {row.claim.id for rows in table.values() for row in rows} == set(ids)
    for paper in ("runkel2024", "chen2022"):
        assert all(row.claim.section for row in table[paper])
        figures = listed["figures"][paper]
        assert {name for item in figures for name in item["claims"]} == set(listed[paper])


def test_a_claim_without_a_result_file_fails_the_build(copy):
    shutil.rmtree(copy.results / "collapse", ignore_errors=True)
    shutil.rmtree(copy.root / "book" / "paper-size" / "collapse")
    with pytest.raises(ReconError, match="'collapse-repeated-train' has no result file"):
        part("claims/runkel2024", copy)


def test_a_claim_that_nobody_listed_fails_the_build(copy):
    path = copy.root / "book" / "claims.yml"
    path.write_text(re.sub(r"  linear-trivial:\n(    .*\n)+", "", path.read_text()))
    with pytest.raises(ReconError, match="'linear-trivial' of a result is not listed"):
        part("claims/ours", copy)


def contested(*verdicts: str) -> dict[str, Row]:
    """Claims of papers, with the run that counts, whose verdict is none of these."""
    counted = best(row for paper in PAPERS if paper != "ours" for row in checked(SOURCES)[paper])
    return {name: row for name, row in counted.items() if row.verdict not in verdicts}


def test_what_failed_has_a_reason_and_what_is_contested_a_reply(copy):
    """Neither is of a claim that nobody makes, or that holds."""
    page = claims_page(ROOT)
    reasons = {name for item in page["why"] for name in item["claims"]}
    failed = {name: row for name, row in contested().items() if row.verdict in FAILURES}
    assert reasons == set(failed)
    assert all(f"(#claim-{name})" in part("failed", SOURCES) for name in failed)
    replies = {name for item in page["replies"] for name in item["claims"]}
    answered = contested("reproduced", "check", "finding")
    assert set(answered) <= replies <= set(contested())
    assert all(f"(#claim-{name})" in part("replies", SOURCES) for name in answered)
    path = copy.root / "book" / "claims.yml"
    path.write_text(path.read_text().replace("[leakage-recommendation]", "[leakage-dlg]"))
    with pytest.raises(ReconError, match="'leakage-recommendation' has no reply"):
        part("replies", copy)


def test_a_card_has_verdict_sentence_and_numbers_of_the_kept_run_first():
    row = contested()["collapse-repeated-heldout"]
    cards = part("claims/runkel2024", SOURCES).split("`````{dropdown} ")
    (card,) = [text for text in cards if ":name: claim-collapse-repeated-heldout\n" in text]
    assert card.startswith("[holds]{.chip .v-holds} " + escaped(row.claim.sentence)[:40])
    size = next(line for line in card.splitlines() if line.startswith("| Size"))
    assert "n = 500" in size.split(" | ")[1] and escaped(row.claim.paper) in card


def test_the_contents_have_a_card_for_every_chapter_with_its_question_and_answer():
    cards = part("contents", SOURCES).split("::::{grid-item-card} ")[1:]
    chapters = [page for page in SOURCES.chapters if page.stem[0].isdigit()]
    for page, card in zip(chapters, cards, strict=True):
        nb = nbformat.read(page, as_version=4)
        assert f":link: executed/{page.stem}\n" in card and " min to read" in card
        assert f"*{opening(nb, 'Question')}*\n\n{opening(nb, 'Answer')}\n" in card


def numbers(text: str) -> list[float]:
    """Those of a sentence, names such as "Fig. 8" left out; 37 % is 0.37."""
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)( ?%)?", NAMES.sub(" ", text))
    return [float(each.replace(",", "")) / (100 if percent else 1) for each, percent in found]


def test_a_row_of_a_figure_has_the_numbers_of_its_claims():
    """Prose beside them is written for what was found: it has to be written anew where that
    moves.
    """
    counted = best(row for rows in checked(SOURCES).values() for row in rows)
    for paper in ("runkel2024", "chen2022"):
        for item in claims_page(ROOT)["figures"][paper]:
            claims = [counted[name].claim for name in item["claims"]]
            known = [
                n
                for each in claims
                for n in numbers(f"{each.ours}; {each.null}; {each.paper}; {each.sentence}")
            ]
            said = numbers(item["we_find"]) + numbers(item["null_says"])
            odd = [
                n for n in said if not any(abs(n - k) <= 0.06 * max(abs(k), 1e-60) for k in known)
            ]
            assert odd == [], item["where"]


def test_a_headline_rests_on_a_run_that_was_done_again(monkeypatch):
    names = claims_page(ROOT)["headlines"]
    assert len(set(names)) == len(names) >= 8 and set(names) <= set(claims_page(ROOT)["ours"])
    table = part("headlines", SOURCES)
    assert all(f"(#claim-{name})" in table for name in names)
    monkeypatch.setattr("companion.chapters.catalogue.read_replays", lambda root: [])
    with pytest.raises(ReconError, match="rests on a run that is not replayed: it is no headline"):
        part("headlines", SOURCES)
    unbound = [
        card
        for card in part("claims/runkel2024", SOURCES).split("`````{dropdown} ")[1:]
        if "not-replayed" in card
    ]
    assert len(unbound) > 20


def test_the_summary_counts_every_claim_once():
    lines = part("verdicts", SOURCES).splitlines()[2:]
    assert len(lines) == len(set(ANSWERS.values())) + 1
    columns = list(
        zip(*([int(n) for n in line.strip("| ").split(" | ")[1:]] for line in lines), strict=True)
    )
    page = claims_page(ROOT)
    for (*numbers, left_out), paper in zip(columns, PAPERS, strict=True):
        assert sum(numbers) == len(page[paper])
        assert left_out == sum(item["paper"] == paper for item in page["not_attempted"])


def test_other_seeds_become_a_range(copy):
    kept = copy.root / "book" / "paper-size" / "collapse"
    meta = json.loads((kept / "seed-1" / "result.json").read_text()) | {"seed": 9}
    seen = part("claims/runkel2024", copy).count("| 3 image sets |")
    (kept / "seed-9").mkdir()
    (kept / "seed-9" / "result.json").write_text(json.dumps(meta))
    assert part("claims/runkel2024", copy).count("| 3 image sets |") < seen
    meta["config"]["n_train"] += 1  # numbers at other sizes are not a spread of these
    (kept / "seed-9" / "result.json").write_text(json.dumps(meta))
    assert part("claims/runkel2024", copy).count("| 3 image sets |") == seen


def test_a_papers_sentence_has_its_verdict_from_a_run_at_its_size():
    name = "hidden-random-noise"
    kept = best(checked(SOURCES)["runkel2024"])[name]
    assert kept.at_paper_size and kept.verdict == kept.claim.verdict
    assert cells(kept)["Size"] == "n = 40, width = 6144"


def test_text_stays_text():
    nasty = "|W| − c_out² *x* $y$ [a](b) <i> `c` x^2 ~d~ 1. \\"
    assert escaped(nasty).replace("\\\\", "\0").replace("\\", "").replace("\0", "\\") == nasty
    assert "|" not in escaped(nasty).replace("\\|", "")


def test_the_landing_page_has_the_pictures_of_chapter_6():
    assert 'class="recon-element recon-proof"' in part("proof", SOURCES)
    with pytest.raises(ReconError, match="no chapter of this edition"):
        part("proof", Sources(ROOT, SOURCES.results, SOURCES.chapters[:1]))


CONFIG = """title: Tiny
author: Nobody
logo: ""
only_build_toc_files: true
execute: {execute_notebooks: "off"}
sphinx:
  local_extensions: {recon_parts: book/_ext, tidy_pages: book/_ext}
  config: {nitpick_ignore_regex: [["py:(class|obj)", ".*"]]}
"""


@pytest.fixture
def tiny(tmp_path):
    """A book with one page, on the published results."""
    root = tmp_path / "tiny"
    shutil.copytree(
        ROOT / "book" / "_ext", root / "book" / "_ext", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(PUBLISHED / "results", root / "book" / "executed" / "results")
    shutil.copy2(ROOT / "book" / "claims.yml", root / "book")
    (root / "_config.yml").write_text(CONFIG)
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/index\n")
    return root


def built(root, text):
    (root / "book" / "index.md").write_text(f"# Tiny\n\n{text}\n")
    return (
        build_html(root, root / "book" / "executed", root / "html", root / "html.log")
        / "book"
        / "index.html"
    )


@pytest.mark.slow
def test_an_unknown_part_fails_the_build_and_without_the_setting_there_are_no_buttons(tiny):
    assert "someone" not in built(tiny, "text").read_text()
    with pytest.raises(ReconRunError, match="asks for the part 'claims/nobody'"):
        built(tiny, "```{recon} claims/nobody\n```")


def test_keep_takes_other_seeds_at_profile_laptop(copy, tmp_path):
    meta = json.loads((copy.results / "separation" / "result.json").read_text())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text(json.dumps(meta | {"seed": 1}))
    (copy.root / "book" / "readme.md.jinja").touch()
    target = keep(tmp_path / "run", copy.root)
    assert target == copy.root / "book" / "seeds" / "separation" / "seed-1"


def test_the_command_line_has_what_the_page_has(capsys):
    assert main(["claims", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = [row for group in checked(SOURCES).values() for row in group]
    assert sorted((r["id"], r["ours"], r["null"], r["profile"]) for r in found) == sorted(
        (row.claim.id, row.claim.ours, row.claim.null, row.result.made.profile) for row in rows
    )
