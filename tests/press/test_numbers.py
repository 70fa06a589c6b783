"""README.md and the landing page say what the result files say, and nothing is said that no file
holds.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.chapters import ROOT, load
from companion.chapters.catalogue import CHECKS, Row, rows
from companion.chapters.claims import PAPERS, claims_page
from companion.press.numbers import PAPERS_REPRODUCED, REPORT, TEMPLATE, rendered, write_readme
from companion.store.results import Claim
from recon.errors import ReconError
from tests.records import replace

RESULTS = ROOT / "book" / "executed" / "results"


def test_the_readme_is_its_template_with_todays_numbers():
    template = (ROOT / TEMPLATE).read_text(encoding="utf-8")
    assert (ROOT / "README.md").read_text(encoding="utf-8") == rendered(template), (
        "run `recon readme`"
    )


def test_the_report_types_no_number_and_has_every_claim():
    template = (ROOT / REPORT).read_text(encoding="utf-8")
    assert not re.search(r"\d", re.sub(r"\{[{%].*?[%}]\}", "", template))
    text = rendered(template)
    for paper in PAPERS_REPRODUCED:
        assert all(claim["sentence"] in text for claim in claims_page(ROOT)[paper].values())


def test_a_number_follows_its_result(tmp_path):
    """Another count in the file is another count in the text."""
    copy = tmp_path / "separation"
    shutil.copytree(RESULTS / "separation", copy)
    text = '{{ run("separation").metrics.matches.ncc_07 }}'
    before = rendered(text, ROOT, tmp_path)
    assert before == str(load(copy, arrays=False).metrics.matches.ncc_07)
    meta = json.loads((copy / "result.json").read_text())
    meta["metrics"]["matches"]["ncc_0.7"] = 12
    (copy / "result.json").write_text(json.dumps(meta))
    assert rendered(text, ROOT, tmp_path) == "12" != before


@pytest.mark.parametrize(
    "text",
    [
        '{{ run("separation").metrics.matches.nothing }}',
        '{{ kept("nothing").metrics }}',
        '{{ benchmark("nothing") }}',
        '{{ counts("nothing") }}',
        "{{ nothing }}",
        "{% if %}",
    ],
)
def test_what_no_result_says_is_one_sentence(text, tmp_path):
    """And the page that asks for it stays as it was."""
    (tmp_path / TEMPLATE).parent.mkdir()
    (tmp_path / TEMPLATE).write_text(text)
    (tmp_path / "README.md").write_text("old")
    (tmp_path / "book" / "claims.yml").write_bytes((ROOT / "book" / "claims.yml").read_bytes())
    with pytest.raises(ReconError) as error:
        write_readme(tmp_path)
    assert "\n" not in str(error.value) and (tmp_path / "README.md").read_text() == "old"


def a_row(profile, values, config=None):
    """A claim whose value differs between image sets."""
    first, *others = (
        Claim("c", section="s", sentence="", ours="12 images", verdict="finding", value=v)
        for v in values
    )
    made = SimpleNamespace(profile=profile, config=config or {}, experiment="landscape-recipe")
    return Row(first, SimpleNamespace(made=made, metrics=None), "05-landscape", True, tuple(others))


def test_image_sets_that_differ_make_a_claim_mixed_whoever_is_first():
    row = a_row("paper", (12, 9, 14))
    other = replace(row.seeds[0], verdict="not reproduced")
    assert row.verdict_over_sets == "finding"
    assert a_row("paper", (12,)).verdict_over_sets == "finding (one set)"
    split = replace(row, seeds=(other, other))
    assert (
        split.verdict == "mixed"
        and replace(split, claim=other, seeds=(row.claim, other)).verdict == "mixed"
    )
    assert split.verdict_over_sets == "mixed (finding on 1, not reproduced on 2 of 3 image sets)"
    papers = replace(split, claim=replace(row.claim, section="4.4"), at_paper_size=False)
    assert papers.verdict == "undecided" and not papers.tested
    assert papers.verdict_over_sets.startswith(
        "undecided (not tested at the paper's size; this run: finding"
    )


#: from the worst to the best
ORDER = ["not reproduced", "undecided", "mixed", "partly", "reproduced"]


def a_row_of(margins, partly):
    """Sets that fail below 0, and hold partly below another margin."""
    claims = [
        Claim("c", section="s", sentence="", ours="", verdict=verdict, margin=margin)
        for margin in margins
        for verdict in [ORDER[0] if margin < 0 else ORDER[3] if margin < partly else ORDER[4]]
    ]
    return replace(a_row("paper", (12,)), claim=claims[0], seeds=tuple(claims[1:]))


#: other tests of the same process may have let PyTorch flush what is subnormal
number = partial(st.floats, allow_subnormal=False)


@settings(deadline=None)
@given(st.lists(number(-9, 9), min_size=1, max_size=5), number(0, 5), number(0, 9))
def test_more_evidence_for_a_sentence_never_lowers_its_verdict(margins, partly, more):
    """Neither a larger margin on one of its image sets, nor another set on which it holds."""

    def rank(margins):
        return ORDER.index(a_row_of(margins, partly).verdict)

    for k, margin in enumerate(margins):
        assert rank([*margins[:k], margin + more, *margins[k + 1 :]]) >= rank(margins)
    assert rank([*margins, partly + more]) >= rank(margins)
    assert rank(margins) == rank(margins[::-1])
    assert a_row_of(margins, partly).margins == sorted(margins)


def test_two_sets_that_hold_by_different_margins_reproduce():
    """Although they differ by more than the lesser of them."""
    assert a_row_of([0.183, 1.559], 0.0).verdict == "reproduced"
    assert a_row_of([0.183, 1.559], 1.0).verdict == "partly"  # the least of them


def test_a_margin_is_on_the_side_of_its_verdict():
    """Of every claim that has one: zero is where its rule turns."""
    judged = {"reproduced": 1, "finding": 1, "not reproduced": -1}
    claims = [claim for row in rows(RESULTS, ROOT) for claim in (row.claim, *row.seeds)]
    sides = [
        (claim.margin, judged[claim.verdict])
        for claim in claims
        if claim.margin is not None and claim.verdict in judged
    ]
    assert len(sides) > 50 and all(margin * side >= 0 for margin, side in sides)


def test_an_identity_is_a_check_unless_it_breaks():
    row = a_row("paper", (12, 9))
    row = replace(row, claim=replace(row.claim, id=CHECKS[0]))
    assert row.verdict == "check"
    assert replace(row, seeds=(replace(row.claim, verdict="not reproduced"),)).verdict == "mixed"
    assert set(CHECKS) <= {name for paper in PAPERS for name in claims_page(ROOT)[paper]}
