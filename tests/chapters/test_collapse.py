"""Collapse: the objective of one image against autograd, and of copies of a pair."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.collapse.experiment import (
    confident_pair,
    logit_grad_norm2,
    per_image,
    repeated,
    stationarity,
)
from recon.nets.mlp import one_hidden
from recon.training.inner_problem import Objective


@pytest.fixture
def small():
    """(network, θ, six images) in float64."""
    generator = torch.Generator().manual_seed(0)
    network = one_hidden(width=5, dim=4)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    return network, theta, torch.randn(6, 4, generator=generator, dtype=torch.float64)


def test_gradient_norms_of_single_images_are_autograds(small):
    network, theta, x = small
    confidence, objective = per_image(network, theta, x)
    for i, image in enumerate(x):
        weights = theta.clone().requires_grad_()
        logit = network(network.unflatten(weights), image[None])[0]
        (gradient,) = torch.autograd.grad(logit, weights)
        torch.testing.assert_close(logit_grad_norm2(network, theta, x)[i], gradient.square().sum())
        assert confidence[i] == logit.abs()
        torch.testing.assert_close(
            objective[i], ((logit.sigmoid() - (logit > 0).double()) * gradient).square().sum()
        )


def test_copies_of_a_pair_have_the_objective_of_the_pair(small):
    """m/2 copies of each of two images: the mean over m is the mean over the two, whatever m is."""
    network, theta, x = small
    logits = network(network.unflatten(theta), x)
    pair, labels = confident_pair(network, theta, x)
    assert logits[pair[0]] == logits.min() and logits[pair[1]] == logits.max()
    for decay in (0.0, 0.1):
        objective = Objective(network, torch.zeros(6, dtype=torch.float64), decay)
        alone = stationarity(objective, theta, x[pair], labels)
        for m in (2, 6, 10):
            assert repeated(objective, theta, x, m)[0] == pytest.approx(alone, rel=1e-12)
        assert torch.equal(repeated(objective, theta, x, 6)[1], pair)
