"""Every experiment at profile `smoke`, its metrics held to pinned numbers: what a wrong sign anywhere would move.

smoke/NAME.json holds the metrics in the arithmetic that the Makefile asks for (tests/arithmetic.py); moves.json names
those that another arithmetic moves: descent in float32 does not come out alike on all processors.  Numbers have to
agree within 1 %, counts within two; times are left out.  In another arithmetic a number that moves is free.
`RECON_PIN=1 pytest -n 0 tests/chapters/test_smoke.py` writes the pins anew, or adds what moves.  Results go where
`$RECON_SMOKE_OUT` says (see the Makefile), so that nbval finds what was computed here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.compare import compared, numbers
from recon.chapters import registry
from tests.arithmetic import PINNED, fingerprint

FOLDER, MOVES = Path(__file__).parent / "smoke", Path(__file__).parent / "moves.json"


def moving(name: str) -> set[str]:
    """Places of numbers that another arithmetic moves."""
    return set(json.loads(MOVES.read_text()).get(name, ()))


def faults(pinned: dict, metrics: dict, free: set[str] = frozenset()) -> dict:
    """What differs, is gone or is new, but for what is `free`."""
    found = compared(pinned, metrics)
    told = {key: sorted(set(found.get(key, ())) - free) for key in ("differ", "gone", "new")}
    return {key: [(p, *found["differ"].get(p, ())) for p in places] for key, places in told.items() if places}


def pin(name: str, metrics: dict, same: bool) -> None:
    """Metrics anew in the pinned arithmetic; in another one, what it moves."""
    if same:
        (FOLDER / f"{name}.json").write_text(json.dumps(metrics, indent=1, sort_keys=True) + "\n")
        return
    moved = faults(json.loads((FOLDER / f"{name}.json").read_text()), metrics)
    everything = json.loads(MOVES.read_text())
    everything[name] = sorted(moving(name) | {place for places in moved.values() for place, *_ in places})
    MOVES.write_text(json.dumps({k: v for k, v in everything.items() if v}, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", registry())
def test_metrics_are_what_they_were(name, out, runs):
    result, same = runs(name), fingerprint() == PINNED
    metrics = json.loads((out / name / "result.json").read_text())["metrics"]
    if os.environ.get("RECON_PIN"):
        pin(name, metrics, same)
    pinned = json.loads((FOLDER / f"{name}.json").read_text())
    assert len({place for place, _ in numbers(pinned)} - moving(name)) > 5 and result.claims
    assert not faults(pinned, metrics, set() if same else moving(name))


def test_a_number_that_moves_is_seen():
    old = {"a": [1.0, {"b": 40}], "c": "x", "d": True, "train_seconds": 3.0}
    for new in (
        {**old, "a": [1.02, {"b": 40}]},
        {**old, "a": [1.0, {"b": 37}]},
        {**old, "c": "y"},
        {**old, "d": False},
    ):
        assert len(compared(old, new)["differ"]) == 1
    assert not compared(old, {**old, "a": [1.001, {"b": 39}], "train_seconds": 9.0})["differ"]
    assert compared(old, {**old, "a": [1.0]})["gone"] == ["a[1].b"]
    assert compared(old, {**old, "e": 1})["new"] == ["e"]


def test_what_may_move_is_free_in_another_arithmetic_only(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.FOLDER", tmp_path)
    monkeypatch.setattr(f"{__name__}.MOVES", tmp_path / "moves.json")
    (tmp_path / "moves.json").write_text("{}")
    old, new = {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}
    pin("x", old, same=True)
    assert json.loads((tmp_path / "x.json").read_text()) == old and moving("x") == set()
    pin("x", new, same=False)
    assert json.loads((tmp_path / "x.json").read_text()) == old and moving("x") == {"b"}
    assert faults(old, new) == {"differ": [("b", 2.0, 3.0)]} and not faults(old, new, moving("x"))
    assert faults(old, {**new, "a": 1.1}, moving("x")) == {"differ": [("a", 1.0, 1.1)]}


def test_arithmetic_is_told_by_its_rounding(monkeypatch):
    import torch

    import tests.arithmetic as arithmetic

    first = arithmetic.fingerprint.__wrapped__()
    assert first == arithmetic.fingerprint.__wrapped__() and len(first) == len(PINNED) == 16
    sort_of = torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda x, dim: sort_of(x, dim) * (1 + 1e-7))
    assert arithmetic.fingerprint.__wrapped__() != first
