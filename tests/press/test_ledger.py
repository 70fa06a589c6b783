"""The ledger of both papers' sentences."""

import os
import re
from pathlib import Path

import nbformat
import pytest
import yaml

from companion.chapters.claims import claims_page

ROOT = Path(__file__).resolve().parents[2]
LEDGER = yaml.load((ROOT / "book" / "ledger.yml").read_text("utf-8"), yaml.CSafeLoader)
PAPERS = ("runkel2024", "chen2022")
PAGES = yaml.load((ROOT / "book" / "pages.yml").read_text("utf-8"), yaml.CSafeLoader)


def claims_of(entry):
    claims = entry.get("claim", [])
    return [claims] if isinstance(claims, str) else claims


def all_claims():
    return {name for names in claims_page().values() if isinstance(names, dict) for name in names}


def test_every_sentence_of_a_paper_names_its_claims_or_says_why_it_has_none():
    claims = all_claims()
    for entry in LEDGER:
        assert bool(claims_of(entry)) != bool(entry.get("no_claim")), entry["says"]
        assert set(claims_of(entry)) <= claims, entry["says"]


@pytest.mark.parametrize("paper", PAPERS)
def test_no_claim_of_a_paper_is_without_a_sentence_of_that_paper(paper):
    with_sentence = {c for entry in LEDGER if entry["paper"] == paper for c in claims_of(entry)}
    assert set(claims_page()[paper]) <= with_sentence


@pytest.mark.parametrize("paper", PAPERS)
def test_every_sentence_stands_in_its_paper(paper):
    text = Path(os.environ.get("RECON_DATA", "")).parent / "papers" / f"{paper}-fulltext.txt"
    if not text.is_file():
        pytest.skip("the papers' texts are not at hand")
    solid = re.sub(r"[\s-]", "", text.read_text("utf-8"))
    for entry in LEDGER:
        if entry["paper"] == paper:
            assert re.sub(r"[\s-]", "", entry["says"]) in solid, entry["says"]


def findings(path):
    """Names of what states a finding on a page: its Answer, its figures; in README its results, by
    their chapters.
    """
    if path.name == "README.md":
        return re.findall(r"^(?:- |\d\.).*?/([\w-]+)\.ipynb", path.read_text("utf-8"), re.MULTILINE)
    cells = nbformat.read(path, as_version=4).cells
    figures = [cell.metadata.get("mystnb", {}).get("figure", {}).get("name") for cell in cells]
    return ["Answer", *(name for name in figures if name and not name.endswith("-here"))]


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))],
    ids=lambda p: p.stem,
)
def test_every_answer_result_and_figure_names_its_claims_or_says_why_it_has_none(path):
    named = PAGES[path.stem]
    assert set(named) == set(findings(path))
    for claims in named.values():
        assert claims if isinstance(claims, str) else set(claims) <= all_claims()
