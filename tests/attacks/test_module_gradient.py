"""Gauss–Newton on the gradient of a network with a residual block."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from small_networks import some_images

from recon.attacks.module_gradient import ModuleGradient, by_hopping
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.nets.residual import residual_network

IMAGES = some_images(ConvNet((Conv(3, 2),), shape=(3, 6, 6)), 12)


def network(activation="tanh", pooled=False, channels=4):
    return residual_network(channels, activation, pooled, IMAGES[2:], seed=10, classes=4)


@pytest.mark.parametrize("pooled", [True, False])
def test_the_gradient_is_that_of_backward(pooled):
    net = network("relu", pooled)
    system = ModuleGradient.of(net, IMAGES[0], torch.tensor(3))
    F.cross_entropy(net.module(IMAGES[:1]), torch.tensor([3])).backward()
    expected = torch.cat([value.grad.flatten() for value in net.module.parameters()])
    torch.testing.assert_close(system.released, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(system(IMAGES[0].flatten()), system.target)


def test_an_image_is_found_through_a_residual_block_with_batch_norm():
    system = ModuleGradient.of(network(), IMAGES[0], torch.tensor(1))
    found = by_hopping(system, 5)
    assert (found.x - IMAGES[0].flatten()).abs().max() < 1e-8
    assert found.energy[-1] < 1e-20


def test_hopping_never_ends_higher_than_the_first_descent():
    system = ModuleGradient.of(network("relu", pooled=True), IMAGES[0], torch.tensor(1))
    first, more = by_hopping(system, 0), by_hopping(system, 4)
    assert more.energy[-1] <= first.energy[-1]
    other = by_hopping(replace(system, seed=5), 0)
    assert not torch.equal(other.x, first.x)


def test_batch_norm_uses_the_public_images_and_nothing_of_the_victim():
    norm = network().module[1]
    stem = network().module[0]
    seen = stem(IMAGES[2:]).transpose(0, 1).flatten(1)
    torch.testing.assert_close(norm.running_mean, seen.mean(1).detach())
    torch.testing.assert_close(norm.running_var, seen.var(1).detach())


def test_an_unknown_activation_is_refused():
    with pytest.raises(ReconError, match="unknown activation 'gelu'"):
        network("gelu")
