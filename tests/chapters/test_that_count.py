"""The verdicts that a chapter shows are those of the claims page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recon.chapters import ROOT, load
from recon.chapters.catalogue import best, rows
from recon.chapters.verdicts import in_full, that_count
from recon.store.results import Claim

RESULTS = ROOT / "book" / "executed" / "results"


def as_tuples(value):
    """Sizes as a run that has just ended has them."""
    if isinstance(value, dict):
        return {name: as_tuples(each) for name, each in value.items()}
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["decoreco-truth", "bilevel-hidden", "landscape-decoreco"])
def test_a_chapter_shows_the_verdicts_of_the_claims_page(name, fresh):
    result = load(RESULTS / name, arrays=False)
    if fresh:
        result = replace(result, made=replace(result.made, config=as_tuples(result.made.config)))
    page, lines = best(rows(RESULTS, ROOT)), that_count(result).data.splitlines()[4:]
    assert len(lines) == len(result.claims) > 0
    for claim, line in zip(result.claims, lines, strict=True):
        verdict, run, sentence = (part.strip() for part in line.strip("|").split(" | "))
        row = page[claim.id]
        assert verdict.split(" (")[0] == row.verdict and sentence == claim.sentence
        assert run.endswith(f"{row.image_sets} image set{'s' * (row.image_sets > 1)}")
        assert run.startswith("this page" if row.result.made.key == result.made.key else "kept")


def test_claims_are_told_in_full_and_nothing_in_them_is_markup():
    claims = [
        Claim("a", "", "θ* is far from c_out.", "", "2 of 3, |W| = 1", "none", "partly"),
        Claim("b", "", "Second.", "", "5", "", "finding"),
    ]
    told = in_full(claims, "*Head:*").data.splitlines()
    assert told == [
        "*Head:*",
        "",
        "- **partly**: θ\\* is far from c\\_out.",
        "  - ours: 2 of 3, \\|W\\| = 1",
        "  - null: none",
        "- **finding**: Second.",
        "  - ours: 5",
    ]
    assert in_full(claims[1:]).data == "- **finding**: Second.\n  - ours: 5"
