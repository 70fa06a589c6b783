"""Ordinary training of a `ConvNet` before its gradient is attacked, as Chen & Campbell (2022) do for two rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.nets.conv import ConvNet, Params

BATCH, STEP_SIZE, EPOCHS = 64, 1e-3, 300  # §4: Adam with PyTorch's other defaults


def pretrain(
    network: ConvNet,
    theta: Params,
    x: Tensor,
    labels: Tensor,
    epochs: int,
    generator: torch.Generator,
    observe: Callable[[Params], None] | None = None,
) -> Params:
    """θ after `epochs` of Adam on the mean cross-entropy of images x (n, c, h, w), reshuffled every epoch.

    observe: is called with θ at the start and after every epoch.
    """
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
    adam = torch.optim.Adam(leaves.values(), lr=STEP_SIZE)

    def now() -> Params:
        return {name: leaf.detach() for name, leaf in leaves.items()}

    for _ in range(epochs):
        if observe is not None:
            observe(now())
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            adam.zero_grad()
            F.cross_entropy(network(leaves, x[rows]), labels[rows]).backward()
            adam.step()
    if observe is not None:
        observe(now())
    return now()


__all__ = ["BATCH", "EPOCHS", "STEP_SIZE", "pretrain"]
