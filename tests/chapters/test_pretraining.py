"""Ordinary training of a convolutional network."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from small_networks import SMALL

from companion.chapters.leakage_common import SEED, pretrain


def test_batches_of_64_in_the_generators_order_by_adam():
    """One epoch of 100 images is two steps of PyTorch's Adam."""
    x = torch.randn(100, *SMALL.shape, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(100) % 2
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
