"""Gauss–Newton on the gradient of a network with a residual block."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from small_networks import some_images
from torch import nn

from recon.attacks.batches import ModuleSystem
from recon.attacks.gauss_newton import gauss_newton
from recon.nets.conv import Conv, ConvNet
from recon.nets.module import ModuleNetwork
from recon.released import Gradient

IMAGES = some_images(ConvNet((Conv(3, 2),), shape=(3, 6, 6)), 12)


class Residual(nn.Module):
    """σ(h + W₂ ∗ σ(BN(W₁ ∗ h))) of h = σ(W₀ ∗ x), and a fully connected layer."""

    def __init__(self, activation, pooled, channels=4):
        super().__init__()
        self.stem, self.first, self.second = (
            nn.Conv2d(inputs, channels, 3, padding=1, bias=False)
            for inputs in (3, channels, channels)
        )
        self.norm, self.activation, self.pooled = nn.BatchNorm2d(channels), activation, pooled
        self.head = nn.Linear(channels if pooled else channels * 36, 4)

    def forward(self, x):
        h = self.activation(self.stem(x))
        h = self.activation(h + self.second(self.activation(self.norm(self.first(h)))))
        return self.head(h.mean((2, 3)) if self.pooled else h.flatten(1))


def network(activation=torch.tanh, pooled=False):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(10)
        module = Residual(activation, pooled)
    return ModuleNetwork(module.double().eval())


def posed(net, label):
    return ModuleSystem.of(
        Gradient.of(net.module, F.cross_entropy, IMAGES[:1], torch.tensor([label])), (3, 6, 6)
    )


def test_an_image_is_found_through_a_residual_block_with_batch_norm():
    system = posed(network(), 1)
    found = gauss_newton(system, steps=40)
    assert (found.x - IMAGES[0].flatten()).abs().max() < 1e-8
    assert found.energy[-1] < 1e-20
