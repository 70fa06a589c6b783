"""Eq. (11): the constraint is kept, the energy falls."""

from __future__ import annotations

import pytest
import torch
from small_networks import LOSSY, some_gradient

from recon.attacks.gradient_matching import GradientMatching
from recon.attacks.hard_constraint import HardConstraint, by_projection, by_trust_region
from recon.attacks.rgap import layer_by_layer


def problem():
    gradient, _ = some_gradient(LOSSY, count=1)
    matching = GradientMatching(gradient, steps=1, alpha=1.0, beta=0.1)
    return HardConstraint.of(matching, next(layer_by_layer(gradient)))


@pytest.mark.parametrize(("solver", "steps"), [(by_projection, 60), (by_trust_region, 12)])
def test_the_energy_falls_while_the_constraint_is_kept(solver, steps):
    posed = problem()
    course = solver(posed, steps)
    assert len(course.energy) == steps + 1
    assert course.energy[0] == pytest.approx(posed.value_and_grad(posed.start)[0])
    assert course.energy[-1] < 0.97 * course.energy[0]
    assert posed.value_and_grad(course.x)[0] == pytest.approx(course.energy[-1].item())
    assert posed.violation(course.x) < 1e-9
    assert (course.x - posed.start).norm() > 1e-3
    assert (course.seconds.diff() >= 0).all()


def test_a_step_off_the_rows_is_no_violation_and_one_along_them_is():
    posed = problem()
    off = posed.rows.unseen(torch.randn(posed.start.shape, generator=torch.Generator().manual_seed(0)).double())
    assert posed.violation(posed.start + off) < 1e-9
    assert posed.violation(posed.start + posed.rows.basis[:, 0]) == pytest.approx(1 / posed.start.norm().item())
