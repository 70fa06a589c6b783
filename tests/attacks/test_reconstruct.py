"""The loop and its descent schemes: monotone, independent rows, interrupted = uninterrupted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.optim.descent import HeavyBall, lbfgs
from recon.store.results import save_tensors

SCALES = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)


@dataclass(frozen=True)
class Quadratic:
    """½ Σ s (x − 0.7)², with a known answer; `steps_taken` counts its steps, cut off after `fail_after`."""

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
    steps_taken = []
    resumed = reconstruct(Quadratic(HeavyBall(), steps_taken, 99), -start(), 30, checkpoint=checkpoint, every_s=0)
    assert len(steps_taken) == 30 - 13  # it went on from the checkpoint, not from the start
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


def test_truncated_and_foreign_checkpoints_cost_time_only(tmp_path):
    checkpoint = tmp_path / "state.safetensors"
    whole = reconstruct(Quadratic(HeavyBall()), start(), 30)
    with pytest.raises(KeyboardInterrupt):
        reconstruct(Quadratic(HeavyBall(), []), start(), 30, checkpoint=checkpoint, every_s=0)
    good = checkpoint.read_bytes()
    for damaged in (good[:-1], good[: len(good) // 2], b"", b"\xff" * 8 + good[8:]):
        checkpoint.write_bytes(damaged)
        assert torch.equal(reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint).x_hat, whole.x_hat)
    save_tensors({"x": start()}, checkpoint)  # whole, but without a history
    assert torch.equal(reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint).x_hat, whole.x_hat)


def test_energy_is_that_of_the_accepted_points():
    attack = Quadratic(HeavyBall(step_size=0.5))  # far too long for the stiff direction: many steps are taken back
    state, raw = attack.init(start()), []
    for _ in range(60):
        off = state["x"] - 0.7
        raw.append(0.5 * (SCALES * off.square()).flatten(1).sum(1))
        state = attack.step(state)
        off = state["accepted_x"] - 0.7
        assert torch.equal(state["accepted_energy"], 0.5 * (SCALES * off.square()).flatten(1).sum(1))
    raw = torch.stack(raw)
    assert (raw.diff(dim=0) > 0).any()  # proposals did rise …
    assert torch.equal(state["accepted_energy"], raw.min(0).values)  # … and none of those was kept


def test_finished_rows_stay_while_others_go_on():
    x = start()
    x[1] = 0.7  # at the minimum from the start
    found = reconstruct(Quadratic(HeavyBall(tol=1e-12)), x, 500, tol=1e-12)
    assert torch.equal(found.x_hat[1], x[1]) and found.converged.all() and 1 < found.steps < 500


def test_budget_ends_a_run_that_has_not_converged():
    found = reconstruct(Quadratic(HeavyBall()), start(), 3, tol=1e-12)
    assert found.steps == 3 and found.history.shape == (3, 3) and not found.converged.any()


def test_nan_start_energy_is_never_accepted():
    class Broken(Quadratic):
        def step(self, state):
            return self.descent.step(
                state, torch.full((3,), torch.nan, dtype=torch.float64), torch.ones_like(state["x"])
            )

    found = reconstruct(Broken(HeavyBall()), start(), 5)
    assert torch.equal(found.x_hat, start()) and not found.converged.any() and torch.isinf(found.energy).all()


def rosenbrock(theta):
    """Σ 100 (b − a²)² + (1 − a)² over pairs of coordinates; minimum 0 at 1, gradient by hand."""
    a, b = theta[:, 0::2], theta[:, 1::2]
    grad = torch.empty_like(theta)
    grad[:, 0::2] = -400 * a * (b - a.square()) - 2 * (1 - a)
    grad[:, 1::2] = 200 * (b - a.square())
    return (100 * (b - a.square()).square() + (1 - a).square()).sum(1), grad


def test_lbfgs_follows_the_banana_valley_in_every_row():
    theta = torch.tensor([[-1.2, 1.0] * 3, [0.0, 0.0] * 3, [1.0, 1.0] * 3, [2.0, -1.0] * 3], dtype=torch.float64)
    seen = []
    found = lbfgs(rosenbrock, theta, tol=1e-8, max_iter=300, callback=lambda _, energy, __: seen.append(energy))
    assert (found.theta - 1).abs().max() < 1e-7 and (found.grad_norm <= 1e-8).all() and found.iterations < 300
    assert (torch.stack(seen).diff(dim=0) <= 1e-12).all()  # Armijo: no row ever rises
    for row in range(len(theta)):
        single = lbfgs(rosenbrock, theta[row : row + 1], tol=1e-8, max_iter=300)
        assert (single.theta[0] - found.theta[row]).abs().max() < 1e-7


def test_lbfgs_pairs_approximate_the_inverse_hessian_of_a_quadratic():
    scales = torch.tensor([1.0, 3.0, 10.0, 30.0], dtype=torch.float64)

    def fun(theta):
        return 0.5 * (scales * theta.square()).sum(-1), scales * theta

    found = lbfgs(fun, torch.ones(1, 4, dtype=torch.float64), tol=1e-13, history=40)
    v = torch.tensor([[1.0, -2.0, 3.0, -4.0]], dtype=torch.float64)
    assert ((found.pairs.apply(v) - v / scales).norm() / (v / scales).norm()).item() < 0.1
