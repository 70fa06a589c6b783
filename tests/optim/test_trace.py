"""The trace of a computation: what it holds, when it stops, and that it costs nothing where nobody
asks.
"""

from __future__ import annotations

import time

import pytest
import torch

from companion.store.sweep import sweep
from companion.store.time_limit import OutOfTime, time_limit
from recon.optim.loop import LoopSettings, iterate
from recon.optim.trace import Trace, note, recorded


def halve(steps: int):
    """A descent whose energy after step k is 2^−k."""

    def step(state):
        return {"accepted": {"energy": state["accepted"]["energy"] / 2}}

    return iterate(
        lambda: {"accepted": {"energy": torch.ones(1)}}, step, LoopSettings(steps, label="descent")
    )


def test_a_trace_holds_energies_at_milestones_and_notes():
    halve(3)  # outside: not recorded
    with recorded(Trace()) as trace:
        halve(7)
        halve(1)
        note("net", 3.0, torch.tensor([3.0, 4.0]))
        note("nothing")
    assert list(trace.rows) == ["descent", "descent 2", "net"]
    assert trace.rows["descent"].tolist() == [[1, 0.5], [2, 0.25], [5, 2**-5]]
    assert trace.rows["net"].tolist() == [[1, 3.0], [2, pytest.approx(12.5**0.5)]]


def test_a_descent_that_runs_out_of_time_leaves_what_it_did():
    with pytest.raises(OutOfTime), recorded(Trace()) as trace, time_limit(0.2):
        halve(10**6)
    assert len(trace.rows["descent"]) > 3
    with time_limit(0.05):
        pass
    time.sleep(0.1)  # no alarm is left


def unit(name: str) -> dict[str, torch.Tensor]:
    halve(10**6 if name == "long" else int(name))
    return {"x": torch.ones(2)}


def test_a_sweep_hands_over_what_its_runs_noted(tmp_path):
    with recorded(Trace()) as trace:
        sweep(unit, ["2", "5"], "runs", tmp_path)
    assert sorted(trace.rows) == ["2: descent", "2: result", "5: descent", "5: result"]
    with recorded(Trace()) as again:  # stored: nothing is computed
        sweep(unit, ["2", "5"], "runs", tmp_path)
    assert all(torch.equal(again.rows[name], rows) for name, rows in trace.rows.items())


def test_a_sweep_that_runs_out_of_time_hands_over_what_it_began(tmp_path):
    with pytest.raises(OutOfTime), recorded(Trace()) as trace, time_limit(0.3):
        sweep(unit, ["2", "long", "3"], "runs", tmp_path)
    assert {"2: descent", "long: descent"} <= trace.rows.keys()
    assert not any(name.startswith("3") for name in trace.rows)
    assert not (tmp_path / "runs" / "long.safetensors").exists()
