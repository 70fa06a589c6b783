"""Ordinary training of a convolutional network."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from small_networks import SMALL

from companion.chapters.leakage_common import SEED, pretrain


def two_kinds(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(count) % 2
    noise = torch.randn(count, *SMALL.shape, generator=torch.Generator().manual_seed(0))
    return noise * 0.1 + labels[:, None, None, None] - 0.5, labels


def test_pre_training_learns_and_is_repeatable():
    x, labels = two_kinds()
    theta = SMALL.init(torch.Generator().manual_seed(SEED))
    before = {name: tensor.clone() for name, tensor in theta.items()}
    first, second = (
        pretrain(SMALL, theta, x, labels, 10, torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert (SMALL(first, x).argmax(1) == labels).double().mean() > 0.9
    assert (SMALL(theta, x).argmax(1) == labels).double().mean() < 0.9
    for name in theta:
        assert torch.equal(first[name], second[name]) and torch.equal(theta[name], before[name])


def test_batches_of_64_in_the_generators_order_by_adam():
    """One epoch of 100 images is two steps of PyTorch's Adam."""
    x, labels = two_kinds(100)
    theta = SMALL.init(torch.Generator().manual_seed(SEED))
    found = pretrain(SMALL, theta, x, labels, 1, torch.Generator().manual_seed(3))
    order = torch.randperm(100, generator=torch.Generator().manual_seed(3))
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
    adam = torch.optim.Adam(leaves.values(), lr=1e-3)
    for rows in (order[:64], order[64:]):
        adam.zero_grad()
        F.cross_entropy(SMALL(leaves, x[rows]), labels[rows]).backward()
        adam.step()
    for name, leaf in leaves.items():
        torch.testing.assert_close(found[name], leaf.detach())
