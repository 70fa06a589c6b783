"""The joint system against the whole gradient by autograd: derivatives, ranks, solutions, and what
it cannot see.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_networks import (
    LOSSY,
    SMALL,
    STRIDED,
    normal,
    some_gradient,
    whole_jacobian,
    with_activation,
)

from recon.analysis.identifiability import determined
from recon.attacks.gauss_newton import Dense, gauss_newton
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.rgap import generic_deficiencies, rgap
from recon.nets.conv import Conv, ConvNet

#: its second layer alone loses the image, all layers together do not
JOINTLY = ConvNet((Conv(3, 8), Conv(4, 2, 2)), shape=(2, 8, 8), classes=4)


def one(network, row=0):
    gradient, x = some_gradient(network)
    return gradient.split()[row], x[row].flatten()


def rank(matrix):
    values = torch.linalg.svdvals(matrix)
    return int((values > 1e-10 * values[0]).sum())


@pytest.mark.parametrize(
    "network", [LOSSY, STRIDED, JOINTLY, with_activation(JOINTLY, "leaky_relu")]
)
@pytest.mark.parametrize("peel", [True, False])
def test_the_image_solves_it_and_its_sparse_jacobian_is_autograds_anywhere(network, peel):
    gradient, x = one(network)
    system = JointSystem.of(gradient, peel)
    assert (system(x) - system.target).norm() < 1e-8
    elsewhere = 0.3 * normal(len(x), seed=1)
    expected = torch.func.jacrev(system)(elsewhere)
    torch.testing.assert_close(system.jacobian(elsewhere), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("network", [LOSSY, STRIDED, JOINTLY])
def test_its_rank_is_that_of_the_whole_gradient(network):
    """Peeled or not; without one of the blocks it is less."""
    gradient, x = one(network)
    expected = rank(whole_jacobian(gradient, x))
    for peel in (True, False):
        assert rank(JointSystem.of(gradient, peel).jacobian(x)) == expected
    jacobian = JointSystem.of(gradient, peel=False).jacobian(x)
    assert rank(jacobian[len(gradient.gradients["w1"].flatten()) :]) <= expected


def test_all_layers_together_determine_what_one_layer_does_not():
    """From grey, exactly; R-GAP, layer by layer, does not."""
    gradient, x = one(JOINTLY)
    assert rank(JointSystem.of(gradient).jacobian(x)) == len(x)
    found = gauss_newton(JointSystem.of(gradient))
    assert (found.x - x).norm() < 1e-6 * x.norm()
    assert relative_residual(gradient, found.x) < 1e-9
    assert (rgap(gradient).flatten() - x).norm() > 0.1 * x.norm()


def test_a_layer_that_does_not_read_every_pixel_is_not_taken_for_solved():
    """Its generic rank is full and its own is not; the least-norm solution explains it, and is
    wrong.
    """
    network = ConvNet((Conv(5, 8, 2), Conv(5, 6, 2, 2)), shape=(3, 16, 16))
    assert generic_deficiencies(network)[0] == 0
    gradient, x = one(network)
    system = JointSystem.of(gradient)
    assert system.depth == 1
    at_truth = determined(system, x)
    assert at_truth.unread.sum() == 93 and at_truth.deficiency <= -93


def test_a_layer_whose_equations_contradict_each_other_is_not_taken_for_solved():
    gradient, _ = one(SMALL)
    w1 = gradient.gradients["w1"]
    noisy = {**gradient.gradients, "w1": w1 + 1e-3 * w1.std() * normal(*w1.shape)}
    assert JointSystem.of(replace(gradient, gradients=noisy)).depth == 1


def test_what_is_not_determined_is_another_image_with_the_same_gradient():
    gradient, x = one(LOSSY)
    found = gauss_newton(JointSystem.of(gradient))
    assert relative_residual(gradient, found.x) < 1e-9
    assert (found.x - x).norm() > 0.1 * x.norm()
    assert (found.energy.diff() < 0).all()


def test_another_image_is_moved_until_it_has_the_gradient_and_stays_in_the_box():
    """The nearest solutions of two starts differ; with a box every entry keeps it."""
    gradient, x = one(LOSSY)
    other = one(LOSSY, row=1)[1]
    free = gauss_newton(JointSystem.of(gradient), other)
    boxed = gauss_newton(JointSystem.of(gradient), other, steps=100, box=(-0.5, 0.5))
    assert (
        relative_residual(gradient, free.x) < 1e-9 and relative_residual(gradient, boxed.x) < 1e-9
    )
    assert free.x.abs().max() > 0.5 >= boxed.x.abs().max()
    assert (boxed.x - x).norm() > 0.1 * x.norm()
    assert (free.x - other).norm() < (gauss_newton(JointSystem.of(gradient)).x - other).norm()


@pytest.mark.parametrize(("rows", "columns"), [(4, 9), (9, 4), (6, 6)])
def test_a_step_is_damped_by_the_mean_diagonal_of_the_smaller_gram_matrix(rows, columns):
    """(JᵀJ + μI)⁻¹ Jᵀ r with μ a share of tr JᵀJ over the lesser of rows and columns; what is held
    does not move.
    """
    generator = torch.Generator().manual_seed(0)
    jacobian = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    residual = torch.randn(rows, generator=generator, dtype=torch.float64)
    held = torch.arange(columns) < 2
    for free in (None, ~held):
        moving = jacobian if free is None else jacobian * free
        mu = 0.3 * moving.square().sum() / min(rows, columns)
        expected = torch.linalg.solve(
            moving.mT @ moving + mu * torch.eye(columns), moving.mT @ residual
        )
        torch.testing.assert_close(Dense(jacobian).step(residual, 0.3, free), expected)


class Halving:
    """x = 0, of which every step goes half the way."""

    def __init__(self):
        self.start, self.target, self.dampings = torch.ones(2), torch.zeros(2), []

    def __call__(self, x):
        return x

    def linear(self, _):
        return self

    def step(self, residual, damping):
        self.dampings.append(damping)
        return residual / 2


def test_damping_falls_with_every_step_down_to_rounding():
    """Below that the equations of what lacks rank could not be solved."""
    system = Halving()
    gauss_newton(system, steps=16)
    expected = [max(10.0**-k, 1e-14) for k in range(3, 19)]
    assert system.dampings == pytest.approx(expected, abs=1e-16)


def test_a_network_with_full_rank_is_peeled_to_the_image():
    gradient, x = one(SMALL)
    system = JointSystem.of(gradient)
    assert system.depth == 0 and len(gauss_newton(system).energy) == 1
    assert (gauss_newton(system).x - x).norm() < 1e-9
    whole = gauss_newton(JointSystem.of(gradient, peel=False))
    assert (whole.x - x).norm() < 1e-6


def test_the_certificate_falls_with_the_image_alone():
    gradient, x = one(JOINTLY)
    assert relative_residual(gradient, x) < 1e-14
    assert relative_residual(gradient, 0 * x) > 1e-2
    one_pixel = x.clone()
    one_pixel[7] += 1e-3
    assert 1e-6 < relative_residual(gradient, one_pixel) < 1e-1
