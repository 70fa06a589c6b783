"""The loop: where it stops, observers, checkpoints as values, trees."""

from __future__ import annotations

import gc

import pytest
import torch

from recon.optim import loop
from recon.optim.descent import Adam, HeavyBall
from recon.optim.loop import LoopSettings, iterate
from recon.optim.tree import flattened, keep, mapped, unevaluated, unflattened
from recon.store.checkpoints import Checkpoints

F64 = torch.float64
SCALES = torch.tensor([1.0, 7.0, 40.0], dtype=F64)
TOL = 1e-3


def start():
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=F64)


class Descent:
    """½ Σ s x² by one scheme; where it keeps nothing itself, the lowest point so far is kept.
    `calls` counts steps.
    """

    def __init__(self, scheme):
        self.scheme, self.calls = scheme, 0

    def init(self):
        return {"accepted": unevaluated(start()), **self.scheme.init(start())}

    def step(self, state):
        self.calls += 1
        x, before = state["x"], state["accepted"]
        energy = 0.5 * (SCALES * x.square()).sum(-1)
        accepted = keep(energy < before["energy"], {"x": x, "energy": energy}, before)
        return {"accepted": accepted, **self.scheme.step(state, energy, SCALES * x)}


def same(a, b):
    a, b = flattened(a), flattened(b)
    return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    "scheme", [HeavyBall(0.02, 0.5, tol=TOL), HeavyBall(0.02, tol=0.0), Adam(0.05)]
)
def test_it_stops_where_every_row_is_done(scheme):
    descent = Descent(scheme)
    state, history = iterate(descent.init, descent.step, LoopSettings(500, TOL))
    assert 20 < len(history) == descent.calls < 500
    assert (history[-1] <= TOL).all() and not (history[-2] <= TOL).all()
    assert torch.equal(history[-1], state["accepted"]["energy"])


def test_the_budget_holds():
    descent = Descent(Adam(0.05))
    _, history = iterate(descent.init, descent.step, LoopSettings(13))
    assert len(history) == 13 == descent.calls


def test_an_energy_equal_to_the_tolerance_is_done():
    descent = Descent(HeavyBall(0.02))
    _, history = iterate(descent.init, descent.step, LoopSettings(5))
    descent = Descent(HeavyBall(0.02))
    tol = history[2].max().item()
    _, again = iterate(descent.init, descent.step, LoopSettings(5, tol))
    assert len(again) == int((history <= tol).all(1).nonzero()[0]) + 1 < 5


def test_an_observer_sees_every_step_and_none_too_many():
    settings, seen = LoopSettings(500, TOL), []
    descent = Descent(HeavyBall(0.02, tol=TOL))
    state, history = iterate(
        descent.init,
        descent.step,
        settings,
        observe=lambda k, s: seen.append((k, s["accepted"]["energy"])),
    )
    assert [k for k, _ in seen] == list(range(1, len(history) + 1))
    assert torch.equal(torch.stack([energy for _, energy in seen]), history)


class Memory:
    """A checkpoint that is no file."""

    def __init__(self):
        self.saved = []

    def load(self):
        return self.saved[-1] if self.saved else None

    def save(self, tree):
        self.saved.append(tree)


def test_resumed_from_any_checkpoint_value(monkeypatch):
    settings = LoopSettings(500, TOL, every_s=50.0)
    whole, history = iterate(Descent(Adam(0.05)).init, Descent(Adam(0.05)).step, settings)
    monkeypatch.setattr(loop.time, "monotonic", iter(range(0, 10**6, 100)).__next__)
    memory = Memory()
    iterate(Descent(Adam(0.05)).init, Descent(Adam(0.05)).step, settings, memory)
    assert len(memory.saved) == len(history)
    for tree in (memory.saved[0], memory.saved[2], memory.saved[-1]):
        half = Memory()
        half.saved, descent = [tree], Descent(Adam(0.05))
        resumed, energies = iterate(lambda: pytest.fail("began anew"), descent.step, settings, half)
        assert same(resumed, whole) and torch.equal(energies, history)
        assert (descent.calls == 0) == (len(tree["history"]) == len(history))


def test_no_checkpoint_before_its_time(monkeypatch):
    monkeypatch.setattr(loop.time, "monotonic", iter(range(10**6)).__next__)
    memory, descent = Memory(), Descent(Adam(0.05))
    iterate(descent.init, descent.step, LoopSettings(40, every_s=9.5), memory)
    assert [len(tree["history"]) for tree in memory.saved] == [10, 20, 30, 40]


def test_trees_in_files(tmp_path):
    tree = {"a": torch.arange(3), "b": {"c": torch.ones(2, 2), "d": {"e": torch.tensor(7)}}}
    assert sorted(flattened(tree)) == ["a", "b/c", "b/d/e"]
    assert same(unflattened(flattened(tree)), tree)
    checkpoint = Checkpoints(tmp_path / "new").at("x")
    assert checkpoint.load() is None
    checkpoint.save(tree)
    assert same(checkpoint.load(), tree) and checkpoint.path == tmp_path / "new" / "x.safetensors"
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-1])
    assert checkpoint.load() is None


def test_rows_are_kept_one_by_one():
    new, old = (
        {"a": value * torch.ones(2, 3), "b": {"c": value * torch.ones(2)}} for value in (1.0, 2.0)
    )
    kept = keep(torch.tensor([True, False]), new, old)
    assert kept["a"].tolist() == [[1.0] * 3, [2.0] * 3] and kept["b"]["c"].tolist() == [1.0, 2.0]
    assert mapped(lambda a, b: a - b, new, old)["b"]["c"].tolist() == [-1.0, -1.0]


def test_a_long_run_keeps_no_tensor_of_each_step():
    """Each would pin a page of the heap: a run of 50,000 steps came to hold gigabytes."""
    alive = lambda: sum(type(each) is torch.Tensor for each in gc.get_objects())  # noqa: E731
    counts = []

    def step(state):
        counts.append(alive())
        return {"accepted": {"energy": state["accepted"]["energy"] * 0.5}}

    iterate(lambda: {"accepted": {"energy": torch.ones(3)}}, step, LoopSettings(16))
    assert len(counts) == 16 and max(counts[5:]) <= counts[4] + 3
