"""The networks of Table 1 of Chen & Campbell (2022), their seed, and how two of them are trained before the attack."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.nets.conv import Conv, ConvNet, Params

BATCH, STEP_SIZE, EPOCHS = 64, 1e-3, 300  # §4: Adam with PyTorch's other defaults


def _table(*convs: tuple[int, int, int, int]) -> ConvNet:
    return ConvNet(tuple(Conv(*conv) for conv in convs))


#: Table 1: (kernel, channels, stride, padding) of every convolution
TABLE_1 = {
    "CNN2 V1": _table((3, 6, 1, 0)),
    "CNN2 V2": _table((4, 6, 2, 0)),
    "CNN3 V1": _table((3, 6, 1, 0), (4, 3, 2, 0)),
    "CNN3 V2": _table((4, 6, 2, 0), (3, 3, 2, 0)),
    "CNN3 V3": _table((3, 6, 1, 0), (3, 9, 1, 0)),
    "CNN3 V4": _table((3, 1, 1, 0), (3, 6, 1, 0)),
    "CNN4 V1": _table((3, 6, 1, 0), (4, 5, 2, 0), (4, 3, 1, 0)),
    "CNN4 V2": _table((5, 16, 1, 0), (5, 6, 2, 0), (5, 32, 1, 2)),
}
SEED = 10  # of the published networks, and of the starts of their attacks


def pretrain(
    network: ConvNet, theta: Params, x: Tensor, labels: Tensor, epochs: int, generator: torch.Generator
) -> Params:
    """θ after `epochs` of Adam on the mean cross-entropy of images x (n, c, h, w), reshuffled every epoch."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
    adam = torch.optim.Adam(leaves.values(), lr=STEP_SIZE)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            adam.zero_grad()
            F.cross_entropy(network(leaves, x[rows]), labels[rows]).backward()
            adam.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}
