"""Gauss–Newton on the gradient of a network with a residual block."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from small_networks import some_images

from companion.chapters.leakage_limits.experiment import Residual, residual_network
from recon.attacks.batches import ModuleSystem, by_cosine, by_hopping
from recon.nets.conv import Conv, ConvNet
from recon.released import Gradient

IMAGES = some_images(ConvNet((Conv(3, 2),), shape=(3, 6, 6)), 12)


def network(activation="tanh", pooled=False, channels=4):
    return residual_network(Residual(channels, activation, pooled), IMAGES[2:], seed=10, classes=4)


def posed(net, label):
    return ModuleSystem.of(Gradient.of(net.module, F.cross_entropy, IMAGES[:1], torch.tensor([label])), (3, 6, 6))


@pytest.mark.parametrize("pooled", [True, False])
def test_the_gradient_is_that_of_backward(pooled):
    net = network("relu", pooled)
    system = posed(net, 3)
    F.cross_entropy(net.module(IMAGES[:1]), torch.tensor([3])).backward()
    expected = torch.cat([value.grad.flatten() for value in net.module.parameters()])
    torch.testing.assert_close(system.released, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(system(IMAGES[0].flatten()), system.target)


def test_an_image_is_found_through_a_residual_block_with_batch_norm():
    system = posed(network(), 1)
    found = by_hopping(system, 5)
    assert (found.x - IMAGES[0].flatten()).abs().max() < 1e-8
    assert found.energy[-1] < 1e-20


def test_hopping_never_ends_higher_than_the_first_descent():
    system = posed(network("relu", pooled=True), 1)
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


def test_the_block_adds_its_input_to_two_convolutions_with_batch_norm():
    """Written out: σ(h + BN₂(W₂ ∗ σ(BN₁(W₁ ∗ h))))."""
    block = network("relu").module[3]
    h = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0)).double()

    def normed(x, norm):
        shape = (1, -1, 1, 1)
        centred = (x - norm.running_mean.view(shape)) / (norm.running_var.view(shape) + norm.eps).sqrt()
        return norm.weight.view(shape) * centred + norm.bias.view(shape)

    inner = normed(F.conv2d(h, block.first.weight, padding=1), block.norms[0]).relu()
    expected = (h + normed(F.conv2d(inner, block.second.weight, padding=1), block.norms[1])).relu()
    torch.testing.assert_close(block(h), expected)


def test_a_hop_starts_from_the_best_so_far(monkeypatch):
    """With a first descent that ends at the image up to a little, and one step a hop, it stays near."""
    from recon.attacks import batches

    system = posed(network(), 1)
    starts = []
    truly = batches.gauss_newton

    def noted(posed, x_init=None, steps=1):
        starts.append(x_init)
        return truly(posed, IMAGES[0].flatten() + 1e-3 if x_init is None else x_init, steps=0)

    monkeypatch.setattr(batches, "gauss_newton", noted)
    by_hopping(system, 3)
    assert len(starts) == 4
    assert all((start - IMAGES[0].flatten()).abs().max() < 0.3 for start in starts[1:])


def test_adam_on_the_cosine_lowers_it():
    system = posed(network(), 1)

    def off(x):
        return 1 - F.cosine_similarity(system(x), system.target, dim=0)

    assert off(by_cosine(system, 60)) < 0.5 * off(system.start)
