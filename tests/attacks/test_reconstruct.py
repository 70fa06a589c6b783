"""The loop and its descent schemes: monotone, independent rows, interrupted = uninterrupted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from companion.store.checkpoints import Checkpoints
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.optim.descent import HeavyBall

SCALES = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)


@dataclass(frozen=True)
class Quadratic:
    """½ Σ s (x − 0.7)², with a known answer; `steps_taken` counts its steps, cut off after
    `fail_after`.
    """

    descent: HeavyBall
    steps_taken: list | None = None
    fail_after: int = 13

    def init(self, x_init):
        return self.descent.init(x_init)

    def step(self, state):
        if self.steps_taken is not None:
            self.steps_taken.append(1)
            if len(self.steps_taken) > self.fail_after:
                raise KeyboardInterrupt
        off = state["x"] - 0.7
        return self.descent.step(
            state, 0.5 * (SCALES * off.square()).flatten(1).sum(1), SCALES * off
        )


def start(rows=3):
    return torch.rand(rows, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_heavy_ball_converges_and_never_rises():
    found = reconstruct(Quadratic(HeavyBall(tol=1e-20)), start(), 500, tol=1e-20)
    assert (found.x_hat - 0.7).abs().max() < 1e-9 and found.converged.all()
    assert (found.history.diff(dim=0) <= 0).all()


def test_rows_are_independent():
    batch = reconstruct(Quadratic(HeavyBall()), start(), 40)
    for row in range(3):
        single = reconstruct(Quadratic(HeavyBall()), start()[row : row + 1], 40)
        assert torch.equal(single.x_hat[0], batch.x_hat[row])


def test_interrupted_equals_uninterrupted(tmp_path):
    checkpoint = Checkpoints(tmp_path).at("state")
    whole = reconstruct(Quadratic(HeavyBall()), start(), 30)
    with pytest.raises(KeyboardInterrupt):
        reconstruct(Quadratic(HeavyBall(), []), start(), 30, checkpoint=checkpoint, every_s=0)
    assert checkpoint.path.is_file()
    steps_taken = []
    resumed = reconstruct(
        Quadratic(HeavyBall(), steps_taken, 99), -start(), 30, checkpoint=checkpoint, every_s=0
    )
    assert len(steps_taken) == 30 - 13  # it went on from the checkpoint, not from the start
    assert torch.equal(whole.x_hat, resumed.x_hat) and torch.equal(whole.history, resumed.history)


def test_bad_starts():
    with pytest.raises(ReconError, match="shape"):
        reconstruct(Quadratic(HeavyBall()), torch.zeros(3), 1)
    with pytest.raises(ReconError, match="not finite"):
        reconstruct(Quadratic(HeavyBall()), torch.full((1, 1, 3), torch.inf), 1)


def test_energy_is_that_of_the_accepted_points():
    # far too long for the stiff direction: many steps are taken back
    attack = Quadratic(HeavyBall(step_size=0.5))
    state, raw = attack.init(start()), []
    for _ in range(60):
        off = state["x"] - 0.7
        raw.append(0.5 * (SCALES * off.square()).flatten(1).sum(1))
        state = attack.step(state)
        off = state["accepted"]["x"] - 0.7
        assert torch.equal(
            state["accepted"]["energy"], 0.5 * (SCALES * off.square()).flatten(1).sum(1)
        )
    raw = torch.stack(raw)
    assert (raw.diff(dim=0) > 0).any()  # proposals did rise …
    # … and none of those was kept
    assert torch.equal(state["accepted"]["energy"], raw.min(0).values)


def test_nan_start_energy_is_never_accepted():
    class Broken(Quadratic):
        def step(self, state):
            return self.descent.step(
                state, torch.full((3,), torch.nan, dtype=torch.float64), torch.ones_like(state["x"])
            )

    found = reconstruct(Broken(HeavyBall()), start(), 5)
    assert (
        torch.equal(found.x_hat, start())
        and not found.converged.any()
        and torch.isinf(found.energy).all()
    )


@pytest.mark.parametrize("damage", [lambda good: good[:-1], lambda good: b""])
def test_damaged_checkpoints_cost_time_only(tmp_path, damage):
    checkpoint = Checkpoints(tmp_path).at("state")
    whole = reconstruct(Quadratic(HeavyBall()), start(), 30)
    reconstruct(Quadratic(HeavyBall()), start(), 10, checkpoint=checkpoint, every_s=-1)
    checkpoint.path.write_bytes(damage(checkpoint.path.read_bytes()))
    again = reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint)
    assert torch.equal(again.x_hat, whole.x_hat)
