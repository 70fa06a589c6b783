"""One residual block with batch norm (He et al. 2016) behind a first convolution, small enough to be attacked whole."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.module import ModuleNetwork, default_start

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}


class ResidualBlock(nn.Module):
    """σ(x + BN(W₂ ∗ σ(BN(W₁ ∗ x)))), 3 × 3 convolutions without bias."""

    def __init__(self, channels: int, activation: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, h, w), the same shape."""
        inner = self.activation(self.norms[0](self.first(x)))
        result: Tensor = self.activation(x + self.norms[1](self.second(inner)))
        return result


def residual_network(
    channels: int, activation: str, pooled: bool, public: Tensor, seed: int, classes: int = 10
) -> ModuleNetwork:
    """Convolution, batch norm, activation, `ResidualBlock`, then the mean over positions (pooled) or none, then a fully
    connected layer; in evaluation mode, float64.

    PyTorch's default initialisation from this seed; running means and variances from images `public` (n, 3, h, w) ·
    activation: a name of `ACTIVATIONS`, else ReconError.
    """
    if activation not in ACTIVATIONS:
        raise ReconError(f"unknown activation '{activation}': choose one of {', '.join(ACTIVATIONS)}")
    stem = (nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), ACTIVATIONS[activation]())
    block = ResidualBlock(channels, activation)
    features = channels if pooled else channels * public.shape[-2] * public.shape[-1]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten()) if pooled else (nn.Flatten(),)
    module = nn.Sequential(*stem, block, *head, nn.Linear(features, classes))
    default_start(module, torch.Generator().manual_seed(seed))
    module.double()
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = None  # a plain mean over what it has seen
    with torch.no_grad():
        module.train()(public.double())
    return ModuleNetwork(module.eval())
