"""The closed form of the one-hidden-layer inner problem against automatic differentiation and dense
algebra.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from recon.nets.mlp import one_hidden
from recon.training.inner_problem import Objective
from recon.training.one_hidden_layer import HiddenObjective

N, D, WIDTH, DECAY = 5, 7, 6, 0.02


def toy(smoothing=None):
    generator = torch.Generator().manual_seed(0)
    network = one_hidden(WIDTH, D, smoothing)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    y = (torch.arange(N) % 2).double()
    theta = torch.randn(network.n_params, generator=generator, dtype=torch.float64)
    v = torch.randn(network.n_params, generator=generator, dtype=torch.float64)
    return HiddenObjective(network, x, y, DECAY), Objective(network, y, DECAY), theta, v


@pytest.mark.parametrize("smoothing", [None, 4.0])
def test_energy_and_gradient(smoothing):
    closed, reference, theta, _ = toy(smoothing)
    value, grad = closed.value_and_grad(theta)
    expected = reference.value_and_grad(theta[None], closed.coordinates[None])
    torch.testing.assert_close(value, expected[0][0])
    torch.testing.assert_close(grad, expected[1][0])


@pytest.mark.parametrize("smoothing", [None, 4.0])
def test_jacobian_products_gram_and_gauss_newton(smoothing):
    closed, reference, theta, v = toy(smoothing)
    now = closed.at(theta)
    jacobian = torch.autograd.functional.jacobian(
        lambda t: reference.logits(t[None], closed.coordinates[None])[0], theta
    )
    u = torch.linspace(-1, 1, N, dtype=torch.float64)
    torch.testing.assert_close(closed.times(now, v), jacobian @ v)
    torch.testing.assert_close(closed.transposed(now, u), jacobian.mT @ u)
    torch.testing.assert_close(closed.gram(now), jacobian @ jacobian.mT)
    # (JᵀDJ/n + ω·I) p = v
    p = closed.gauss_newton(now)(v)
    product = jacobian.mT @ (now.curvature * (jacobian @ p)) / N + DECAY * p
    torch.testing.assert_close(product, v, rtol=1e-9, atol=1e-9)


def test_the_bend_is_the_derivative_of_the_slope():
    closed, _, theta, _ = toy(4.0)
    w1, b1, _, _ = closed.parts(theta)
    z = (closed.coordinates @ w1.mT + b1).requires_grad_()
    expected = torch.autograd.grad(closed.network.slope(z).sum(), z)[0]
    torch.testing.assert_close(closed.bend(closed.at(theta)), expected)


def test_a_start_is_added_to_theta_everywhere_but_in_the_decay():
    closed, reference, theta, start = toy()
    w1, b1, w2, b2 = closed.parts(start)
    moved = replace(closed, start=(closed.coordinates @ w1.mT + b1, w2, b2))
    value, grad = moved.value_and_grad(theta)
    end = start + theta
    expected, slope = reference.value_and_grad(end[None], closed.coordinates[None])
    decay = 0.5 * DECAY * (theta.dot(theta) - end.dot(end))
    torch.testing.assert_close(value, expected[0] + decay)
    torch.testing.assert_close(grad, slope[0] - DECAY * start)
