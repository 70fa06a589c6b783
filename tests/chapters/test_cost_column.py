"""The claims page's Cost: what was timed, and beside it what the experiment says where that can hardly be all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from companion.chapters import ROOT, load, registry
from companion.chapters.catalogue import Row, stated_seconds


@pytest.fixture
def row():
    result = load(ROOT / "book" / "paper-size" / "decoreco-reference", arrays=False)
    return Row(result.claims[0], result, "04-decoreco", at_paper_size=True)


def at(row, **made):
    return replace(row, result=replace(row.result, made=replace(row.result.made, **made))).budget


def test_less_than_a_fifth_of_what_is_stated_has_that_beside_it(row):
    assert row.budget == "3 min, perhaps for the last part alone; stated: about three hours, cpu (2 cores)"
    fifth = stated_seconds("three hours") / 5
    assert at(row, seconds=fifth) == "36 min, cpu (2 cores)"
    assert at(row, seconds=fifth - 1).startswith("36 min, perhaps")
    assert at(row, seconds=1.0, device="NVIDIA H100") == "1 s, H100"  # faster than the core that is meant
    assert at(row, seconds=5.0, overrides={"n_train": 3}) == "5 s, cpu (2 cores)"  # what is stated is of other sizes


def test_every_stated_cost_can_be_read():
    costs = {cost for experiment in registry().values() for cost in experiment.cost.values()}
    assert min(map(stated_seconds, costs)) > 0
    assert stated_seconds("a while") == stated_seconds("") == 0
