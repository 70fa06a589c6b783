"""A replay: the same run agrees, and a fault in an attack, in a score or in a claim is seen."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
import torch

from companion.chapters import experiment
from companion.chapters import replay as replaying
from companion.chapters.catalogue import outcome, read_replays
from companion.chapters.replay import Replay, differing_traces, write_replays
from companion.chapters.run import run
from companion.store.kept import TO_KEEP
from companion.store.results import TRACE
from companion.store.time_limit import OutOfTime
from recon.errors import ReconError
from recon.optim.trace import current

NAME = "bilevel-hidden-shared"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run at smoke, with what would be kept of it."""
    result = run(
        NAME, profile="smoke", data="photos", device="cpu", out=tmp_path_factory.mktemp("out")
    )
    arrays = {name: array for name, array in result.arrays.items() if name.startswith(TO_KEEP)}
    return replace(result, arrays=arrays, kept=True)


@pytest.fixture
def replayed(stored, monkeypatch):
    """Its replay; scores are of reconstructions in the book, which a run at smoke has none of."""
    # at smoke the inner training comes to its end
    monkeypatch.setattr(replaying, "DECIDED_BY_ROUNDING", {})

    def again(kept=stored, seconds=60.0, **changes):
        chosen = replace(experiment(NAME), rescored=None, **changes)
        monkeypatch.setattr(replaying, "experiment", lambda name: chosen)
        monkeypatch.setattr(replaying, "kept", lambda name, seed: kept)
        return replaying.replay(NAME, 0, seconds)

    return again


def test_the_same_run_agrees(replayed):
    again = replayed()
    assert again.by == "whole" and again.agrees and again.differences == ()


def test_a_run_that_is_too_long_is_begun(replayed):
    again = replayed(seconds=0.05)
    assert again.by in ("start", "nothing")


@pytest.mark.parametrize("factor", [-1.0, 0.01], ids=["sign", "factor"])
def test_a_fault_in_the_step_is_seen(replayed, monkeypatch, factor):
    from companion.chapters.bilevel import experiment_shared

    descent = experiment_shared.DESCENT
    faulty = replace(descent, step_size=factor * descent.step_size)
    monkeypatch.setattr(experiment_shared, "DESCENT", faulty)
    again = replayed()
    assert not again.agrees and any("reconstruct, step" in said for said in again.differences)


def test_what_rounding_decides_is_not_compared(replayed, stored, monkeypatch):
    rows = {name: 2 * rows for name, rows in stored.arrays.items() if "reconstruct" in name}
    faulty = replace(stored, arrays={**stored.arrays, **rows})
    assert rows and not replayed(faulty).agrees
    every = {NAME: re.compile(".*reconstruct")}
    monkeypatch.setattr(replaying, "DECIDED_BY_ROUNDING", every)
    assert replayed(faulty).agrees


def test_another_verdict_and_another_number_are_seen(replayed, stored):
    for name, changes in (("verdict", {"verdict": "finding"}), ("number", {"value": 1e6})):
        claims = [replace(claim, **changes) for claim in stored.claims]
        again = replayed(replace(stored, made=replace(stored.made, claims=claims)))
        assert not again.agrees and stored.claims[0].id in again.differences[0], name


def test_other_images_are_one_sentence(replayed, stored):
    data = replace(stored.made.data, sha256="0" * 64)
    with pytest.raises(ReconError, match="was made with other images"):
        replayed(replace(stored, made=replace(stored.made, data=data)))


def test_the_band_grows_with_the_steps():
    steps = torch.tensor([1.0, 10.0, 50_000.0], dtype=torch.float64)
    before = torch.stack([steps, torch.ones(3, dtype=torch.float64)], 1)
    for number, allowed in enumerate((1e-3, 1e-2, 0.5)):
        for share, seen in ((0.9, False), (2.5, True)):
            now = before.clone()
            now[number, 1] += share * allowed
            assert bool(list(differing_traces({"x": before}, {"x": now}))) == seen
    assert not list(differing_traces({"x": before}, {"y": before}))


def test_what_comes_after_a_training_may_differ_by_more():
    training, before, now = (torch.tensor([[1.0, number]]) for number in (1.0, 100.0, 103.0))
    far = torch.tensor([[1.0, 130.0]])
    old = {"net: training": training, "attack": before}
    assert not differing_traces(old, {"net: training": training, "attack": now})
    assert differing_traces(old, {"attack": now, "net: training": training})
    assert differing_traces(old, {"net: training": training, "attack": far})


def test_nothing_replayed_is_no_agreement(replayed, stored):
    again = replayed(replace(stored, arrays={}), seconds=0.05)
    assert again.by == "nothing" and not again.agrees and outcome(asdict(again)) == "nothing"
    assert outcome(asdict(replace(again, by="whole"))) == "differs"


@pytest.mark.parametrize(
    ("ending", "by"),
    [("h: result", "start and a part"), (": reconstruct", "start"), ("network: result", "start")],
)
def test_one_run_of_several_that_ended_is_a_part(replayed, stored, ending, by):
    rows = {
        name.removeprefix(TRACE): row
        for name, row in stored.arrays.items()
        if name.endswith(ending)
    }

    def until_the_time_is_up(sizes, context):
        current().rows |= rows
        raise OutOfTime

    assert rows and replayed(compute=until_the_time_is_up).by == by


def test_the_table_keeps_other_rows(tmp_path):
    (tmp_path / "book").mkdir()
    one = Replay("linear", 0, "abc1234", by="whole", agrees=True, largest=0.0, differences=())
    write_replays([one, replace(one, name="collapse")], tmp_path)
    write_replays([replace(one, by="start")], tmp_path)
    rows = {row["name"]: row for row in read_replays(tmp_path)}
    assert rows["collapse"]["by"] == "whole" and rows["linear"]["by"] == "start"
    assert list(rows) == ["collapse", "linear"]
