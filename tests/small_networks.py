"""Convolutional networks small enough to be checked against dense algebra, and gradients of random
images by them.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from companion.chapters.leakage_common import SEED
from recon.attacks.batches import BatchSystem
from recon.nets.conv import Activation, Conv, ConvNet, Params
from recon.released import Gradient

SHAPE = (2, 9, 8)
#: with and without stride, padding, and rows and columns that no tap reads
CONVS = [Conv(3, 4), Conv(4, 3, 2), Conv(3, 2, 2, 1), Conv(5, 3, 3, 2), Conv(2, 3, 4, 0)]
#: wide enough to be solved exactly, and not
SMALL = ConvNet((Conv(3, 6), Conv(3, 8)), shape=(2, 8, 8), classes=4)
LOSSY = ConvNet((Conv(3, 3, 2),), shape=(2, 9, 9), classes=4)
ONE = ConvNet((Conv(3, 6),), shape=(2, 6, 6), classes=5)
STRIDED = ConvNet((Conv(4, 6, 2), Conv(4, 5, 2, 1)), shape=(2, 13, 12), classes=3)


def with_activation(network: ConvNet, name: str) -> ConvNet:
    return replace(network, activation=Activation(name))


def theta_of(network: ConvNet) -> Params:
    return network.init(torch.Generator().manual_seed(SEED), torch.float64)


def some_images(network: ConvNet, count: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, *network.shape, generator=generator, dtype=torch.float64) - 0.5


def some_gradient(network: ConvNet = SMALL, count: int = 2) -> tuple[Gradient, torch.Tensor]:
    x = some_images(network, count)
    return Gradient.each(network, theta_of(network), x, torch.arange(count) % network.classes), x


def a_batch(network=ONE, n=3, labels=None, seed=0):
    x = some_images(network, n, seed)
    labels = torch.arange(n) % network.classes if labels is None else torch.tensor(labels)
    mean = Gradient.averaged(network, theta_of(network), x, labels)
    return BatchSystem.of(mean, labels), x, mean
