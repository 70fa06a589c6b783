"""Eq. (11): the constraint is kept, the energy falls."""

from __future__ import annotations

import pytest
import torch
from small_networks import LOSSY, some_gradient

from companion.chapters.leakage_appendix.experiment import HardConstraint, minimised
from recon.attacks.gradient_matching import GradientMatching
from recon.attacks.rgap import layer_by_layer, system_of


def problem():
    gradient, _ = some_gradient(LOSSY, count=1)
    matching = GradientMatching(gradient, steps=1, alpha=1.0, beta=0.1)
    return HardConstraint.of(matching, next(layer_by_layer(gradient)))


@pytest.mark.parametrize("as_given", [False, True])
def test_the_energy_falls_while_the_constraint_is_kept(as_given, steps=12):
    posed = problem()
    course = minimised(posed, steps, as_given)
    energy = torch.tensor([posed.value_and_grad(x)[0] for x, _ in course])
    assert len(course) == steps + 1
    assert energy[-1] < 0.97 * energy[0]
    assert (energy.diff() <= 1e-6 * energy[0]).all()
    assert posed.violation(course[-1][0]) < 1e-9
    assert (course[-1][0] - posed.start).norm() > 1e-3


def test_the_kernel_is_all_that_u_does_not_see():
    gradient, _ = some_gradient(LOSSY, count=1)
    layer, posed = next(layer_by_layer(gradient)), problem()
    system = torch.from_numpy(
        system_of(LOSSY.convs[0], gradient.theta["w1"], layer.delta[0], LOSSY.shape).dense()
    )
    assert (system @ posed.kernel).abs().max() < 1e-12
    assert posed.kernel.shape[1] == system.shape[1] - torch.linalg.matrix_rank(system)
    torch.testing.assert_close(
        posed.kernel.mT @ posed.kernel, torch.eye(posed.kernel.shape[1], dtype=torch.float64)
    )


def test_a_step_within_the_kernel_is_no_violation_and_one_off_it_is():
    posed = problem()
    assert posed.violation(posed.start + posed.kernel[:, 0]) < 1e-9
    noise = torch.randn(posed.start.shape, generator=torch.Generator().manual_seed(0)).double()
    off = noise - posed.kernel @ (posed.kernel.mT @ noise)
    assert posed.violation(posed.start + off) == pytest.approx(
        (off.norm() / posed.start.norm()).item()
    )
