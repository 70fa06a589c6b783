"""The loop and its descent schemes: monotone, independent rows, interrupted = uninterrupted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from companion.store.checkpoints import Checkpoints
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.optim.descent import HeavyBall
from recon.store.tensors import save_tensors

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


def test_box_holds():
    found = reconstruct(Quadratic(HeavyBall(box=(0.0, 0.5))), start().clamp(0, 0.5), 100)
    assert found.x_hat.max() <= 0.5 and (found.x_hat > 0.49).all()


def test_nan_energy_is_a_rejected_step():
    descent = HeavyBall()
    state = descent.init(start(1))
    state = descent.step(
        state, torch.tensor([1.0], dtype=torch.float64), torch.ones(1, 2, 3, dtype=torch.float64)
    )
    after = descent.step(
        state, torch.tensor([torch.nan], dtype=torch.float64), torch.full((1, 2, 3), torch.nan)
    )
    assert (
        torch.equal(after["accepted"]["x"], state["accepted"]["x"])
        and torch.isfinite(after["x"]).all()
    )


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


def test_damaged_checkpoint_costs_time_only(tmp_path):
    checkpoint = Checkpoints(tmp_path).at("state")
    checkpoint.path.write_bytes(b"not safetensors")
    found = reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint)
    assert torch.equal(found.x_hat, reconstruct(Quadratic(HeavyBall()), start(), 30).x_hat)


def test_bad_starts():
    with pytest.raises(ReconError, match="shape"):
        reconstruct(Quadratic(HeavyBall()), torch.zeros(3), 1)
    with pytest.raises(ReconError, match="not finite"):
        reconstruct(Quadratic(HeavyBall()), torch.full((1, 1, 3), torch.inf), 1)


def test_truncated_and_foreign_checkpoints_cost_time_only(tmp_path):
    checkpoint = Checkpoints(tmp_path).at("state")
    whole = reconstruct(Quadratic(HeavyBall()), start(), 30)
    with pytest.raises(KeyboardInterrupt):
        reconstruct(Quadratic(HeavyBall(), []), start(), 30, checkpoint=checkpoint, every_s=0)
    good = checkpoint.path.read_bytes()
    for damaged in (good[:-1], good[: len(good) // 2], b"", b"\xff" * 8 + good[8:]):
        checkpoint.path.write_bytes(damaged)
        assert torch.equal(
            reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint).x_hat,
            whole.x_hat,
        )
    save_tensors({"x": start()}, checkpoint.path)  # whole, but without a history
    assert torch.equal(
        reconstruct(Quadratic(HeavyBall()), start(), 30, checkpoint=checkpoint).x_hat, whole.x_hat
    )


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
    assert (
        torch.equal(found.x_hat, start())
        and not found.converged.any()
        and torch.isinf(found.energy).all()
    )
