"""Training with weight decay: at stationarity the images explain the weights, with the multipliers
of the loss.
"""

from __future__ import annotations

import pytest
import torch

from recon.nets.gram import gram, layer_norms
from recon.nets.mlp import MLP
from recon.optim.descent import Adam
from recon.optim.subspace import Subspace, lifted, reduced
from recon.training.inner_problem import DecaySettings, Objective, train_with_decay

F64 = torch.float64


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 20, generator=generator, dtype=F64), torch.arange(6, dtype=F64) % 2
    network = MLP((20, 12, 12, 1), smoothing=5.0)
    return network, x, y, network.flatten(network.init(generator, dtype=F64))


def test_the_images_with_the_losss_multipliers_explain_the_weights(problem):
    network, x, y, theta = problem
    settings = DecaySettings(1e-2, 1500, 0.02)
    params = network.unflatten(train_with_decay(network, x, y, theta, settings))
    sign = 2 * y - 1
    c = sign * torch.sigmoid(-sign * network(params, x)) / (6 * 1e-2)
    matrices, products = gram(network, params, x)
    norm2 = layer_norms(network, params).sum()
    left = norm2 - 2 * products.sum(0) @ c + c @ matrices.sum(0) @ c
    assert (left / norm2).sqrt() < 0.02


def test_steps_are_adams_along_a_cosine_in_the_span_of_the_images(problem):
    network, x, y, theta = problem
    settings = DecaySettings(1e-2, steps=4, step_size=0.02, final=0.1)
    trained = train_with_decay(network, x, y, theta, settings)
    space = Subspace.spanned_by(x)
    small, start = reduced(network, theta, space)
    objective, adam = Objective(small, y, 1e-2), Adam(0.02)
    state = adam.init(start[None])
    for factor in (1.0, 0.1 + 0.45 * (1 + 0.5**0.5), 0.55, 0.1 + 0.45 * (1 - 0.5**0.5)):
        value, grad = objective.value_and_grad(state["x"], space.reduce(x)[None])
        state = adam.step(state, value, grad, factor)
    torch.testing.assert_close(trained, lifted(network, state["x"][0], space))
