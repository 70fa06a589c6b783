"""The loop: where it stops, observers, checkpoints as values and as files."""

from __future__ import annotations

import gc

import pytest
import torch

from companion.store.checkpoints import Checkpoints, flatten_tree, unflatten_tree
from recon.optim import loop
from recon.optim.descent import Adam, HeavyBall
from recon.optim.loop import LoopSettings, iterate
from recon.optim.tree import keep, unevaluated

F64 = torch.float64
SCALES = torch.tensor([1.0, 7.0, 40.0], dtype=F64)
TOL = 1e-3


class Descent:
    """½ Σ s x² by one scheme; where it keeps nothing itself, the lowest point so far is kept.
    `calls` counts steps.
    """

    def __init__(self, scheme):
        self.scheme, self.calls = scheme, 0

    def init(self):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
        return {"accepted": unevaluated(x), **self.scheme.init(x)}

    def step(self, state):
        self.calls += 1
        x, before = state["x"], state["accepted"]
        energy = 0.5 * (SCALES * x.square()).sum(-1)
        accepted = keep(energy < before["energy"], {"x": x, "energy": energy}, before)
        return {"accepted": accepted, **self.scheme.step(state, energy, SCALES * x)}

    def run(self, settings, checkpoint=None, observe=None):
        return iterate(self.init, self.step, settings, checkpoint, observe)


def same(a, b):
    a, b = flatten_tree(a), flatten_tree(b)
    return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    "scheme", [HeavyBall(0.02, 0.5, tol=TOL), HeavyBall(0.02, tol=0.0), Adam(0.05)]
)
def test_it_stops_where_every_row_is_done_and_an_observer_sees_every_step(scheme):
    descent, observations = Descent(scheme), []
    state, history = descent.run(
        LoopSettings(500, TOL),
        observe=lambda k, state: observations.append((k, state["accepted"]["energy"])),
    )
    assert 20 < len(history) == descent.calls < 500
    assert (history[-1] <= TOL).all() and not (history[-2] <= TOL).all()
    assert torch.equal(history[-1], state["accepted"]["energy"])
    assert [k for k, _ in observations] == list(range(1, len(history) + 1))
    assert torch.equal(torch.stack([energy for _, energy in observations]), history)


def test_the_budget_holds_and_an_energy_equal_to_the_tolerance_is_done():
    _, history = Descent(HeavyBall(0.02)).run(LoopSettings(5))
    assert len(history) == 5
    _, again = Descent(HeavyBall(0.02)).run(LoopSettings(5, tol=history[1].max().item()))
    assert len(again) == 2


class Memory:
    """A checkpoint that is no file."""

    def __init__(self, *trees):
        self.trees = list(trees)

    def load(self):
        return self.trees[-1] if self.trees else None

    def save(self, tree):
        self.trees.append(tree)


def test_resumed_from_any_checkpoint_it_is_the_uninterrupted_run(monkeypatch):
    settings = LoopSettings(500, TOL, every_s=50.0)
    whole, history = Descent(Adam(0.05)).run(settings)
    monkeypatch.setattr(loop.time, "monotonic", iter(range(0, 10**6, 100)).__next__)
    memory = Memory()
    Descent(Adam(0.05)).run(settings, memory)
    assert len(memory.trees) == len(history)
    for k in (0, 2, len(history) - 1):
        descent = Descent(Adam(0.05))
        descent.init = lambda: pytest.fail("began anew")
        resumed, energies = descent.run(settings, Memory(memory.trees[k]))
        assert same(resumed, whole) and torch.equal(energies, history)
        assert descent.calls == len(history) - k - 1


def test_a_checkpoint_of_another_program_is_left_alone():
    other = Memory({"state": {"x": torch.zeros(3)}})
    whole, history = Descent(Adam(0.05)).run(LoopSettings(5))
    state, energies = Descent(Adam(0.05)).run(LoopSettings(5), other)
    assert same(state, whole) and torch.equal(energies, history)


def test_no_checkpoint_before_its_time(monkeypatch):
    monkeypatch.setattr(loop.time, "monotonic", iter(range(10**6)).__next__)
    memory = Memory()
    Descent(Adam(0.05)).run(LoopSettings(40, every_s=9.5), memory)
    assert [len(tree["history"]) for tree in memory.trees] == [10, 20, 30, 40]


def test_trees_in_files(tmp_path):
    tree = {"a": torch.arange(3), "b": {"c": torch.ones(2, 2), "d": {"e": torch.tensor(7)}}}
    assert sorted(flatten_tree(tree)) == ["a", "b/c", "b/d/e"]
    assert same(unflatten_tree(flatten_tree(tree)), tree)
    checkpoint = Checkpoints(tmp_path / "new").inside("part").at("x")
    assert checkpoint.load() is None
    checkpoint.save(tree)
    assert same(checkpoint.load(), tree)
    assert checkpoint.path == tmp_path / "new" / "part" / "x.safetensors"
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-1])
    assert checkpoint.load() is None


def test_a_long_run_keeps_no_tensor_of_each_step():
    """Each would pin a page of the heap: a run of 50,000 steps came to hold gigabytes."""
    counts = []

    def step(state):
        counts.append(sum(type(thing) is torch.Tensor for thing in gc.get_objects()))
        return {"accepted": {"energy": state["accepted"]["energy"] * 0.5}}

    iterate(lambda: {"accepted": {"energy": torch.ones(3)}}, step, LoopSettings(16))
    assert len(counts) == 16 and max(counts[5:]) <= counts[4] + 3
