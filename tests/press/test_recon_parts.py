"""Pages that are written from results: complete, exact, and an error where something is missing."""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys

import nbformat
import pytest
import yaml

from companion.chapters import ROOT, load
from companion.chapters.catalogue import best
from companion.chapters.claims import PAPERS, claims_page
from companion.press.html import build_html
from companion.press.publish import keep
from companion.press.runner import ReconRunError
from recon.cli import main
from recon.errors import ReconError

sys.path.append(str(ROOT / "book" / "_ext"))

from claim_parts import (
    CONTRADICTED,
    FAILED,
    KINDS,
    STOPPING,
    Sources,
    cells,
    checked,
    escaped,
    spread,
)  # noqa: E402
from recon_parts import opening, part, thumbnail  # noqa: E402
from tidy_pages import links  # noqa: E402

from tests.prose import NAMES  # noqa: E402

PUBLISHED = ROOT / "book" / "executed"
MENTION = re.compile(r"\[chapter \d+\]\([^)]*\)")
SOURCES = Sources(ROOT, PUBLISHED / "results", sorted(PUBLISHED.glob("*.ipynb")))


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """A result file with the same bytes makes the same claims, whose intervals take a while."""
    seen = {}

    def load_once(folder, arrays=True):
        read = (folder / "result.json").read_bytes() if (folder / "result.json").is_file() else None
        if read is None or arrays:
            return load(folder, arrays)
        if read not in seen:
            seen[read] = load(folder, arrays)
        return seen[read]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("companion.chapters.catalogue.load", load_once)
        yield


@pytest.fixture
def copy(tmp_path):
    """The published results and the catalogue, to be damaged."""
    shutil.copytree(PUBLISHED / "results", tmp_path / "results")
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "book" / "paper-size", tmp_path / "book" / "paper-size")
    shutil.copy2(ROOT / "book" / "claims.yml", tmp_path / "book")
    (tmp_path / "benchmarks").mkdir()
    return Sources(tmp_path, tmp_path / "results", SOURCES.chapters)


def test_the_catalogue_is_long_enough_and_every_claim_has_its_result():
    listed = claims_page(ROOT)
    assert (
        len(listed["runkel2024"]) >= 25
        and len(listed["chen2022"]) >= 10
        and len(listed["ours"]) >= 10
    )
    ids = [name for paper in PAPERS for name in listed[paper]]
    assert len(ids) == len(set(ids))
    found = checked(SOURCES)
    assert {row.claim.id for rows in found.values() for row in rows} == set(ids)
    for paper in ("runkel2024", "chen2022", "others"):
        assert all(row.claim.section for row in found[paper])


def test_a_claim_without_a_result_file_fails_the_build(copy):
    shutil.rmtree(copy.results / "decoreco-truth", ignore_errors=True)
    shutil.rmtree(copy.root / "book" / "paper-size" / "decoreco-truth")
    with pytest.raises(ReconError, match="'truth-partition-as-good' has no result file"):
        part("claims/runkel2024", copy)


def test_a_claim_that_nobody_listed_fails_the_build(copy):
    path = copy.root / "book" / "claims.yml"
    path.write_text(re.sub(r"  linear-trivial:\n(    .*\n)+", "", path.read_text()))
    with pytest.raises(ReconError, match="'linear-trivial' of a result is not listed"):
        part("claims/ours", copy)


def test_a_damaged_catalogue_is_one_sentence(copy):
    (copy.root / "book" / "claims.yml").write_text("runkel2024: [")
    with pytest.raises(ReconError, match="claims.yml cannot be read"):
        part("not-attempted", copy)


def test_a_card_says_what_the_results_say():
    text = part("claims/runkel2024", SOURCES)
    kept = load(ROOT / "book" / "paper-size" / "collapse", arrays=False)
    claim = next(each for each in kept.claims if each.id == "collapse-repeated-heldout")
    (card,) = [
        each
        for each in text.split("`````{dropdown} ")
        if ":name: claim-collapse-repeated-heldout\n" in each
    ]
    assert card.startswith("[reproduced]{.chip .v-reproduced} " + escaped(claim.sentence)[:40])
    size = next(line for line in card.splitlines() if line.startswith("| Size"))
    # the kept run comes first
    assert "(executed/02-collapse)" in card and "n = 500" in size.split(" | ")[1]
    assert escaped(claim.paper) in card


def test_every_figure_of_the_papers_has_a_row_and_every_claim_of_theirs_a_figure():
    for paper in ("runkel2024", "chen2022"):
        items, table = claims_page(ROOT)["figures"][paper], part(f"figures/{paper}", SOURCES)
        assert len(table.splitlines()) == 2 + len(items)
        assert {name for item in items for name in item["claims"]} == set(claims_page(ROOT)[paper])
        for item, line in zip(items, table.splitlines()[2:], strict=True):
            assert (
                item["we_find"] in line
                and line.count(" | ") == 4
                and "image set" in line
                and "{.chip" in line
            )


def test_a_row_says_the_least_and_the_most_of_its_claims_image_sets():
    """One claim on three sets does not speak for another on one."""
    counted = best(row for rows in checked(SOURCES).values() for row in rows)
    for paper in ("runkel2024", "chen2022"):
        lines = part(f"figures/{paper}", SOURCES).splitlines()[2:]
        for item, line in zip(claims_page(ROOT)["figures"][paper], lines, strict=True):
            sets = [counted[name].image_sets for name in item["claims"]]
            said = re.search(r"; ([0-9 to]+) image sets? \|$", line)[1]
            assert said == (
                f"{min(sets)} to {max(sets)}" if len(set(sets)) > 1 else str(sets[0])
            ), line


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


def test_there_are_at_most_ninety_claims():
    assert sum(len(claims_page(ROOT)[paper]) for paper in PAPERS) <= 90


def test_every_claim_has_one_card_of_as_many_columns_as_runs():
    for paper in PAPERS:
        cards = part(f"claims/{paper}", SOURCES).split("`````{dropdown} ")[1:]
        names = [card.split(":name: claim-")[1].split("\n")[0] for card in cards]
        assert names == list(claims_page(ROOT)[paper])
        for card in cards:
            widths = {line.count(" | ") for line in card.splitlines() if line.startswith("| ")}
            assert len(widths) == 1 and widths <= {1, 2}, card[:80]


def test_the_summary_counts_every_claim_once():
    lines = part("verdicts", SOURCES).splitlines()[2:]
    assert len(lines) == len(KINDS) + 1
    columns = list(
        zip(*([int(n) for n in line.strip("| ").split(" | ")[1:]] for line in lines), strict=True)
    )
    page = claims_page(ROOT)
    for (*numbers, left_out), paper in zip(columns, PAPERS, strict=True):
        assert sum(numbers) == len(page[paper])
        assert left_out == sum(item["paper"] == paper for item in page["not_attempted"])


def test_what_failed_has_a_reason_and_reasons_are_of_what_failed():
    counted = best(row for paper in PAPERS if paper != "ours" for row in checked(SOURCES)[paper])
    failed = {
        name for name, row in counted.items() if row.verdict in (FAILED, CONTRADICTED, STOPPING)
    }
    reasons = claims_page(ROOT)["why"]
    assert {name for item in reasons for name in item["claims"]} == failed
    table = part("failed", SOURCES)
    assert all(item["we_find"] in table for item in reasons) and all(
        f"(#claim-{name})" in table for name in failed
    )
    assert not any(
        character.isdigit() for item in reasons for character in MENTION.sub("", item["we_find"])
    )


def test_every_verdict_that_authors_may_contest_has_their_reply():
    """In one sentence, with the run that would settle it; and no reply is to a claim that nobody
    makes.
    """
    replies = claims_page(ROOT)["replies"]
    answered = {name for item in replies for name in item["claims"]}
    counted = best(row for paper in PAPERS if paper != "ours" for row in checked(SOURCES)[paper])
    contested = {
        name
        for name, row in counted.items()
        if row.verdict not in ("reproduced", "check", "finding")
    }
    assert contested <= answered <= set(counted)
    table = part("replies", SOURCES)
    assert all(f"(#claim-{name})" in table for name in contested)
    assert all(
        item["they_could_answer"].endswith(".") and item["would_settle"].endswith(".")
        for item in replies
    )


def test_a_verdict_without_a_reply_stops_the_build(copy):
    path = copy.root / "book" / "claims.yml"
    path.write_text(
        path.read_text().replace(
            "  - claims: [landscape-smoothed]\n", "  - claims: [leakage-dlg]\n"
        )
    )
    with pytest.raises(ReconError, match="'landscape-smoothed' has no reply"):
        part("replies", copy)


def test_what_failed_without_a_reason_is_still_listed(copy):
    path = copy.root / "book" / "claims.yml"
    text = path.read_text()
    start, end = (
        text.index("  - claims: [defences-metric]"),
        text.index("# What the authors could answer"),
    )
    path.write_text(text[:start] + text[end:])
    assert "(#claim-defences-metric)" in part("failed", copy)


def test_other_seeds_become_a_range(copy):
    kept = copy.root / "book" / "paper-size" / "collapse"
    meta = json.loads((kept / "seed-1" / "result.json").read_text()) | {"seed": 9}
    meta.pop("sha256", None)
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
    assert cells(kept)["Size"] == "n = 40, width = 6144, the paper's width"


def test_a_seed_kept_at_the_papers_size_is_a_spread_of_that_row(copy):
    folder = copy.root / "book" / "paper-size" / "bilevel-hidden"
    meta = json.loads((folder / "result.json").read_text())
    before = {row.claim.id: row for row in checked(copy)["runkel2024"] if row.at_paper_size}[
        "hidden-random-noise"
    ]
    meta |= {"seed": 7}
    meta.pop("sha256", None)
    meta["metrics"]["inner_start"]["uniform"]["random"]["nn_train_l2"] = 99.0
    (folder / "seed-7").mkdir()
    (folder / "seed-7" / "result.json").write_text(json.dumps(meta))
    kept = best(checked(copy)["runkel2024"])["hidden-random-noise"]
    assert kept.image_sets == before.image_sets + 1
    assert "to 99\\.0\\)" in cells(kept)["Ours"]


def test_spread():
    assert spread(["a 3"]) == "a 3" == spread(["a 3", "a 3"])
    assert (
        spread(["a 3, b 1e-05", "a 4, b 1e-05", "a 2, b 2e-06"])
        == "a 3 (2 to 4), b 1e-05 (2e-06 to 1e-05)"
    )
    assert spread(["a 3", "b"]) == "a 3; another seed: b"


def test_text_stays_text():
    nasty = "|W| − c_out² *x* $y$ [a](b) <i> `c` x^2 ~d~ 1. \\"
    assert escaped(nasty).replace("\\\\", "\0").replace("\\", "").replace("\0", "\\") == nasty
    assert "|" not in escaped(nasty).replace("\\|", "")


def test_the_contents_have_a_card_for_every_chapter_and_none_for_appendices():
    cards = part("contents", SOURCES).split("::::{grid-item-card} ")[1:]
    chapters = [page for page in SOURCES.chapters if page.stem[0].isdigit()]
    assert len(cards) == len(chapters) >= 11
    for page, card in zip(chapters, cards, strict=True):
        assert f":link: executed/{page.stem}\n" in card
        question, answer = (
            opening(nbformat.read(page, as_version=4), name) for name in ("Question", "Answer")
        )
        assert (
            card.startswith(f"{int(page.stem[:2])}. ")
            and "?" in question
            and f"*{question}*\n\n{answer}\n" in card
        )
        assert 30 < len(answer) < 250 and " min to read" in card
        assert len(re.findall(r"[.?!] [A-Z]", answer)) <= 1, f"at most two sentences: {answer}"


def test_a_card_has_the_figure_that_its_chapter_chose():
    cell, out = nbformat.v4.new_code_cell, nbformat.v4.new_output

    def figure(text, tags=()):
        data = {"image/png": base64.b64encode(text).decode()}
        metadata = {"tags": list(tags), "mystnb": {"image": {"alt": f"What is\n{text.decode()}"}}}
        return cell("plot()", outputs=[out("display_data", data=data)], metadata=metadata)

    first, chosen, empty = (
        figure(b"first"),
        figure(b"chosen", ["thumbnail"]),
        cell("x", metadata={"tags": ["thumbnail"]}),
    )
    page = nbformat.v4.new_notebook
    assert thumbnail(page(cells=[first, chosen])) == (b"chosen", "What is chosen")
    assert thumbnail(page(cells=[empty, first])) == (b"first", "What is first")
    assert thumbnail(page(cells=[cell("x")])) is None
    cards = part("contents", SOURCES)
    for path in (page for page in SOURCES.chapters if page.stem[0].isdigit()):
        png, alt = thumbnail(nbformat.read(path, as_version=4))
        assert png[:4] == b"\x89PNG" and len(alt) > 40 and f":img-alt: {alt}\n" in cards


def test_the_landing_page_has_the_pictures_of_chapter_6():
    assert 'class="recon-element recon-proof"' in part("proof", SOURCES)
    with pytest.raises(ReconError, match="no chapter of this edition"):
        part("proof", Sources(ROOT, SOURCES.results, SOURCES.chapters[:1]))


def test_one_setting_makes_the_buttons_and_they_open_files_that_there_are():
    assert links("", "main", "book/executed/06-separation") == []
    for page in SOURCES.chapters:
        found = links("https://github.com/someone/recon/", "main", f"book/executed/{page.stem}")
        source, colab, binder = (each["url"] for each in found)
        assert source == f"https://github.com/someone/recon/blob/main/notebooks/{page.stem}.ipynb"
        assert colab.endswith(f"github/someone/recon/blob/main/notebooks/{page.stem}.ipynb")
        assert binder.endswith(
            f"gh/someone/recon/main?urlpath=lab/tree/notebooks/{page.stem}.ipynb"
        )
        assert (ROOT / "notebooks" / f"{page.stem}.ipynb").is_file()
    for page in (ROOT / "book").glob("*.md"):
        (found,) = links("https://github.com/someone/recon", "main", f"book/{page.stem}")
        assert (ROOT / found["url"].split("/blob/main/")[1]).is_file()


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


def test_the_directive_writes_its_part_and_the_setting_reaches_the_page(tiny):
    (tiny / "_config.yml").write_text(
        CONFIG + 'repository: {url: "https://github.com/someone/recon", branch: trunk}\n'
    )
    html = built(tiny, "before\n\n```{recon} not-attempted\n```\n\nafter").read_text()
    sentence = claims_page(ROOT)["not_attempted"][0]["sentence"]
    assert html.index("before") < html.index(sentence) < html.index("<p>after")
    assert 'href="https://github.com/someone/recon/blob/trunk/book/index.md"' in html


@pytest.mark.slow
def test_an_unknown_part_fails_the_build_and_without_the_setting_there_are_no_buttons(tiny):
    assert "someone" not in built(tiny, "text").read_text()
    with pytest.raises(ReconRunError, match="asks for the part 'claims/nobody'"):
        built(tiny, "```{recon} claims/nobody\n```")


def test_every_page_of_the_book_is_in_the_table_of_contents():
    listed = (ROOT / "_toc.yml").read_text()
    for page in (ROOT / "book").glob("*.md"):
        assert f"book/{page.stem}\n" in listed, page.name


def test_every_reference_has_a_link():
    entries = re.split(
        r"^(?=@)", (ROOT / "book" / "references.bib").read_text(), flags=re.MULTILINE
    )[1:]
    assert len(entries) > 40
    assert [
        entry.splitlines()[0]
        for entry in entries
        if not re.search(r"\b(eprint|doi|url) = \{", entry)
    ] == []


def test_keep_takes_other_seeds_at_profile_laptop_only(copy, tmp_path):
    meta = json.loads((copy.results / "separation" / "result.json").read_text())
    meta.pop("sha256", None)
    folder = tmp_path / "run"
    folder.mkdir()
    for seed, profile, allowed in ((1, "laptop", True), (0, "laptop", False), (1, "smoke", False)):
        (folder / "result.json").write_text(json.dumps({**meta, "seed": seed, "profile": profile}))
        if allowed:
            assert keep(folder, copy.root) == copy.root / "book" / "seeds" / "separation" / "seed-1"
        else:
            with pytest.raises(ReconError, match="are kept"):
                keep(folder, copy.root)


def test_the_catalogue_is_yaml_with_reasons():
    for item in yaml.safe_load((ROOT / "book" / "claims.yml").read_text())["not_attempted"]:
        assert set(item) == {"paper", "section", "sentence", "why"}


def test_the_command_line_has_what_the_page_has(capsys):
    assert main(["claims", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = [row for group in checked(SOURCES).values() for row in group]
    measured = [row for row in found if row["verdict"] != "not attempted"]
    assert sorted((r["id"], r["ours"], r["null"], r["profile"]) for r in measured) == sorted(
        (row.claim.id, row.claim.ours, row.claim.null, row.result.made.profile) for row in rows
    )
    assert len(found) - len(measured) == len(claims_page(ROOT)["not_attempted"])
