"""The trace of a computation: what it holds, when it stops, and that it costs nothing where nobody
asks.
"""

from __future__ import annotations

import time

import pytest
import torch

from companion.store.sweep import sweep
from recon.optim.loop import LoopSettings, iterate
from recon.optim.trace import MILESTONES, OutOfTime, Trace, note, recorded, time_limit


def halved(steps: int, label: str = "descent"):
    """A descent whose energy after step k is 2^−k."""

    def start():
        return {"accepted": {"energy": torch.ones(1)}}

    def step(state):
        return {"accepted": {"energy": state["accepted"]["energy"] / 2}}

    return iterate(start, step, LoopSettings(steps, label=label))


def test_a_trace_holds_energies_at_milestones():
    with recorded(Trace()) as trace:
        halved(7)
        halved(1)
    assert list(trace.rows) == ["descent", "descent 2"]
    assert trace.rows["descent"].tolist() == [[1, 0.5], [2, 0.25], [5, 2**-5]]
    assert MILESTONES[:7] == (1, 2, 5, 10, 20, 50, 100)


def test_notes_are_numbers_and_root_mean_squares():
    with recorded(Trace()) as trace:
        note("net", 3.0, torch.tensor([3.0, 4.0]))
        note("nothing")
    assert trace.rows["net"].tolist() == [[1, 3.0], [2, pytest.approx(12.5**0.5)]]


def test_nothing_is_recorded_outside():
    halved(3)
    note("net", 1.0)
    with recorded(Trace()) as trace:
        pass
    assert trace.rows == {}


def test_a_descent_that_runs_out_of_time_leaves_what_it_did():
    with pytest.raises(OutOfTime), recorded(Trace()) as trace, time_limit(0.2):
        halved(10**6)
    assert len(trace.rows["descent"]) > 3
    with time_limit(0.05):
        pass
    time.sleep(0.1)  # no alarm is left


def unit(name: str) -> dict[str, torch.Tensor]:
    halved(int(name))
    return {"x": torch.full((2,), float(name))}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_hands_over_what_its_runs_noted(tmp_path, workers):
    with recorded(Trace()) as trace:
        results = sweep(unit, ["2", "5"], "runs", tmp_path, workers)
    assert results["5"].keys() == {"x"}
    assert sorted(trace.rows) == ["2: descent", "2: result", "5: descent", "5: result"]
    with recorded(Trace()) as again:  # stored: nothing is computed
        sweep(unit, ["2", "5"], "runs", tmp_path, workers)
    assert all(torch.equal(again.rows[name], rows) for name, rows in trace.rows.items())


def endless(name: str) -> dict[str, torch.Tensor]:
    halved(10**6 if name == "long" else 2)
    return {"x": torch.ones(1)}


def test_a_sweep_that_runs_out_of_time_hands_over_what_it_began(tmp_path):
    with pytest.raises(OutOfTime), recorded(Trace()) as trace, time_limit(0.3):
        sweep(endless, ["short", "long", "never"], "runs", tmp_path)
    assert {"short: descent", "long: descent"} <= trace.rows.keys()
    assert not any(name.startswith("never") for name in trace.rows)
    assert not (tmp_path / "runs" / "long.safetensors").exists()


def test_time_that_is_up_is_told_from_a_failure_that_wraps_it():
    """TorchScript raises a RuntimeError for whatever is raised inside it."""
    with pytest.raises(OutOfTime), time_limit(0.05):
        try:
            time.sleep(5)
        except OutOfTime as error:
            raise RuntimeError("in the interpreter") from error
    with pytest.raises(RuntimeError, match="a failure"), time_limit(5):
        raise RuntimeError("a failure")
