"""Ordinary training of a `ConvNet` before its gradient is attacked, as Chen & Campbell (2022) do for two rows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.nets.conv import ConvNet

BATCH, STEP_SIZE, EPOCHS = 64, 1e-3, 300  # §4: Adam with PyTorch's other defaults


def pretrain(
    network: ConvNet, weights: list[Tensor], x: Tensor, labels: Tensor, epochs: int, generator: torch.Generator
) -> list[Tensor]:
    """Weights after `epochs` of Adam on the mean cross-entropy of images x (n, c, h, w), reshuffled every epoch."""
    leaves = [weight.clone().requires_grad_() for weight in weights]
    adam = torch.optim.Adam(leaves, lr=STEP_SIZE)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            adam.zero_grad()
            F.cross_entropy(network.logits(leaves, x[rows]), labels[rows]).backward()
            adam.step()
    return [leaf.detach() for leaf in leaves]


__all__ = ["BATCH", "EPOCHS", "STEP_SIZE", "pretrain"]
