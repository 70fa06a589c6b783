"""The loop and its descent schemes: monotone, independent rows, interrupted = uninterrupted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from recon.descent import HeavyBall, lbfgs
from recon.errors import ReconError
from recon.reconstruct import reconstruct

SCALES = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)


@dataclass(frozen=True)
class Quadratic:
    """½ Σ s (x − 0.7)², an attack with a known answer; `fail_at` counts evaluations down to a crash."""

    descent: HeavyBall
    countdown: list | None = None

    def init(self, x_init):
        return self.descent.init(x_init)

    def step(self, state):
        if self.countdown is not None:
            self.countdown.append(1)
            if len(self.countdown) > 13:
                raise KeyboardInterrupt
        off = state["x"] - 0.7
        return self.descent.step(state, 0.5 * (SCALES * off.square()).flatten(1).sum(1), SCALES * off)


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


def test_box_holds():
    found = reconstruct(Quadratic(HeavyBall(box=(0.0, 0.5))), start().clamp(0, 0.5), 100)
    assert found.x_hat.max() <= 0.5 and (found.x_hat > 0.49).all()


def test_nan_energy_is_a_rejected_step():
    descent = HeavyBall()
    state = descent.init(start(1))
    state = descent.step(state, torch.tensor([1.0], dtype=torch.float64), torch.ones(1, 2, 3, dtype=torch.float64))
    after = descent.step(state, torch.tensor([torch.nan], dtype=torch.float64), torch.full((1, 2, 3), torch.nan))
    assert torch.equal(after["accepted_x"], state["accepted_x"]) and torch.isfinite(after["x"]).all()


def test_interrupted_equals_uninterrupted(tmp_path):
    checkpoint = tmp_path / "state.safetensors"
    whole = reconstruct(Quadratic(HeavyBall()), start(), 30)
    with pytest.raises(KeyboardInterrupt):
        reconstruct(Quadratic(HeavyBall(), []), start(), 30, checkpoint=checkpoint, every_s=0)
    assert checkpoint.is_file()
    resumed = reconstruct(Quadratic(HeavyBall(), None), start(), 30, checkpoint=checkpoint, every_s=0)
    assert torch.equal(whole.x_hat, resumed.x_hat) and torch.equal(whole.history, resumed.history)


def test_damaged_checkpoint_costs_time_only(tmp_path):
    checkpoint = tmp_path / "state.safetensors"
    checkpoint.write_bytes(b"not safetensors")
    found = reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint)
    assert torch.equal(found.x_hat, reconstruct(Quadratic(HeavyBall()), start(), 30).x_hat)


def test_bad_starts():
    with pytest.raises(ReconError, match="shape"):
        reconstruct(Quadratic(HeavyBall()), torch.zeros(3), 1)
    with pytest.raises(ReconError, match="not finite"):
        reconstruct(Quadratic(HeavyBall()), torch.full((1, 1, 3), torch.inf), 1)


def test_lbfgs_solves_ill_conditioned_rows_each_on_its_own():
    target = torch.randn(2, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scales = torch.logspace(0, 4, 20, dtype=torch.float64)

    def fun(theta):
        off = theta - target[: len(theta)]
        return 0.5 * (scales * off.square()).sum(-1), scales * off

    found = lbfgs(fun, torch.zeros(2, 20, dtype=torch.float64), tol=1e-9, max_iter=500, history=20)
    assert (found.grad_norm <= 1e-9).all() and (found.theta - target).abs().max() < 1e-8
