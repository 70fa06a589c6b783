"""Pages that are written from results: complete, exact, and an error where something is missing."""

from __future__ import annotations

import json
import shutil

import pytest
import yaml
from recon_parts import Sources, checked, escaped, modules, part, plain, spread

from recon.chapters import ROOT, load
from recon.chapters.catalogue import PAPERS, catalogue
from recon.cli import main
from recon.errors import ReconError
from recon.press.publish import keep

PUBLISHED = ROOT / "book" / "executed"
SOURCES = Sources(ROOT, PUBLISHED / "results", sorted(PUBLISHED.glob("*.ipynb")))


@pytest.fixture
def copy(tmp_path):
    """The published results and the catalogue, to be damaged."""
    shutil.copytree(PUBLISHED / "results", tmp_path / "results")
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "book" / "paper-size", tmp_path / "book" / "paper-size")
    shutil.copy2(ROOT / "book" / "claims.yml", tmp_path / "book")
    return Sources(tmp_path, tmp_path / "results", SOURCES.chapters)


def test_the_catalogue_is_long_enough_and_every_claim_has_its_result():
    listed = catalogue(ROOT)
    assert len(listed["runkel2024"]) >= 25 and len(listed["chen2022"]) >= 10 and len(listed["ours"]) >= 10
    ids = [name for paper in PAPERS for name in listed[paper]]
    assert len(ids) == len(set(ids))
    found = checked(SOURCES)
    assert {row.claim.id for rows in found.values() for row in rows} == set(ids)
    for paper in ("runkel2024", "chen2022"):
        assert all(row.claim.section for row in found[paper])


def test_a_claim_without_a_result_file_fails_the_build(copy):
    (copy.results / "collapse" / "result.json").unlink()
    with pytest.raises(ReconError, match="'collapse-repeated-train' has no result file"):
        part("claims/runkel2024", copy)


def test_a_kept_run_does_not_stand_in_for_the_editions_own(copy):
    (copy.results / "decoreco-tuned" / "result.json").unlink()
    with pytest.raises(ReconError, match="'decoreco-tuned' has no result file"):
        part("claims/runkel2024", copy)


def test_a_claim_that_nobody_listed_fails_the_build(copy):
    path = copy.root / "book" / "claims.yml"
    path.write_text(path.read_text().replace("  - linear-trivial\n", ""))
    with pytest.raises(ReconError, match="'linear-trivial' of a result is not listed"):
        part("claims/ours", copy)


def test_a_damaged_catalogue_is_one_sentence(copy):
    (copy.root / "book" / "claims.yml").write_text("runkel2024: [")
    with pytest.raises(ReconError, match="claims.yml cannot be read"):
        part("not-attempted", copy)


def test_the_table_says_what_the_result_says():
    table = part("claims/runkel2024", SOURCES)
    claims = {claim.id: claim for claim in load(PUBLISHED / "results" / "collapse", arrays=False).claims}
    (line,) = [row for row in table.splitlines() if escaped(claims["collapse-repeated-heldout"].sentence[:40]) in row]
    assert escaped(claims["collapse-repeated-heldout"].null) in line and "**reproduced**" in line
    assert "(executed/02-collapse)" in line and "laptop" in line
    assert all(row.count(" | ") == 4 for row in table.splitlines()[3:-1])


def test_the_summary_counts_every_claim_once():
    lines = part("verdicts", SOURCES).splitlines()[2:]
    for line, paper in zip(lines, ("runkel2024", "chen2022"), strict=True):
        *numbers, left_out = map(int, line.strip("| ").split(" | ")[1:])
        assert sum(numbers) == len(catalogue(ROOT)[paper])
        assert left_out == sum(item["paper"] == paper for item in catalogue(ROOT)["not_attempted"])


def test_other_seeds_become_a_range(copy):
    original = copy.results / "collapse" / "result.json"
    meta = json.loads(original.read_text())
    other = copy.root / "book" / "seeds" / "collapse" / "seed-1"
    other.mkdir(parents=True)
    meta |= {"seed": 1}
    meta.pop("sha256", None)
    (other / "result.json").write_text(json.dumps(meta))
    assert "*(2 seeds)*" in part("claims/runkel2024", copy)
    meta["profile"] = "smoke"  # another profile's numbers are not a spread of these
    (other / "result.json").write_text(json.dumps(meta))
    assert "*(2 seeds)*" not in part("claims/runkel2024", copy)


def test_spread():
    assert spread(["a 3"]) == "a 3" == spread(["a 3", "a 3"])
    assert spread(["a 3, b 1e-05", "a 4, b 1e-05", "a 2, b 2e-06"]) == "a 3 (2 to 4), b 1e-05 (2e-06 to 1e-05)"
    assert spread(["a 3", "b"]) == "a 3; another seed: b"


def test_text_stays_text():
    nasty = "|W| − c_out² *x* $y$ [a](b) <i> `c` x^2 ~d~ 1. \\"
    assert escaped(nasty).replace("\\\\", "\0").replace("\\", "").replace("\0", "\\") == nasty
    assert "|" not in escaped(nasty).replace("\\|", "")


def test_contents_and_status_have_a_row_for_every_chapter():
    for name in ("contents", "chapters"):
        table = part(name, SOURCES)
        for page in SOURCES.chapters:
            assert f"(executed/{page.stem})" in table
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len(rows) == 2 + len(SOURCES.chapters)
    assert all("?" in line for line in part("contents", SOURCES).splitlines()[2:])


def test_every_page_of_the_book_is_in_the_table_of_contents():
    listed = (ROOT / "_toc.yml").read_text()
    for page in (ROOT / "book").glob("*.md"):
        assert f"book/{page.stem}\n" in listed, page.name


def test_keep_takes_other_seeds_at_profile_laptop_only(copy, tmp_path):
    meta = json.loads((copy.results / "collapse" / "result.json").read_text())
    meta.pop("sha256", None)
    folder = tmp_path / "run"
    folder.mkdir()
    for seed, profile, allowed in ((1, "laptop", True), (0, "laptop", False), (1, "smoke", False)):
        (folder / "result.json").write_text(json.dumps({**meta, "seed": seed, "profile": profile}))
        if allowed:
            assert keep(folder, copy.root) == copy.root / "book" / "seeds" / "collapse" / "seed-1"
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
    assert len(found) - len(measured) == len(catalogue(ROOT)["not_attempted"])


def test_an_unknown_part_is_refused():
    for name in ("claims/nobody", "nonsense"):
        with pytest.raises(ReconError, match=f"asks for the part '{name}'"):
            part(name, SOURCES)


def test_the_reference_has_every_module_but_the_chapters_and_the_command_line():
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "recon").rglob("*.py")}
    expected = {name for name in files if not name.endswith("__init__") and "chapters" not in name}
    assert set(modules()) == expected - {"recon.cli"} and len(modules()) > 40


def test_docstrings_stay_text_but_for_code_doctests_and_what_is_indented():
    lines = ["R = |a*|, θ_1 and `x_i`.", "", "    E = *2*", "", ">>> f(1)", "2"]
    plain(None, "", "", None, {}, lines)
    text = "\n".join(lines)
    assert text.startswith("R = \\|a\\*\\|, θ\\_1 and ``x_i``.")
    assert "::\n\n       E = *2*" in text and ">>> f(1)\n2" in text
