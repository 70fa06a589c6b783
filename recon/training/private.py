"""Full-batch DP-SGD, many runs at once: clipped gradients of every image, summed, and noise on the sum.

    θ ← θ − lr/n (Σ_i min(1, C/‖g_i‖) g_i + σ C N(0, I))                       (Abadi et al. 2016, with q = 1)

A layer's gradient is δ hᵀ, so that its norm is a product, and the sum of clipped gradients one matrix product; none
of the n gradients is formed (Goodfellow 2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.nets.network import LayerPass

#: sees (θ before the step (S, p), the noisy sum that is released (S, p))
Watch = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class PrivateDescent:
    """steps: T · lr · clip: C · noise: σ, in units of C.  ReconError unless clip and noise are positive."""

    steps: int = 100
    lr: float = 9.0
    clip: float = 0.1
    noise: float = 5.0

    def __post_init__(self) -> None:
        if self.clip <= 0 or self.noise <= 0:
            raise ReconError("clip and noise of private descent must be positive")


def clipped_sum(network: MLP, theta: Tensor, x: Tensor, labels: Tensor, clip: float) -> Tensor:
    """Σ_i min(1, C/‖g_i‖) g_i (S, p), g_i the gradients of the cross-entropy at θ (S, p), of images x (n, d) that all
    runs share, or (S, n, d), with labels (n,) or (S, n)."""
    passes = _clipped(network, theta, x, labels, clip)
    parts = [part for p in passes for part in ((p.delta.mT @ p.input).flatten(-2), p.delta.sum(-2))]
    return torch.cat(parts, dim=-1)


def clipped_each(network: MLP, theta: Tensor, x: Tensor, labels: Tensor, clip: float) -> Tensor:
    """The same gradients one by one, (S, n, p)."""
    passes = _clipped(network, theta, x, labels, clip)
    parts = [((p.delta.unsqueeze(-1) * p.input.unsqueeze(-2)).flatten(-2), p.delta) for p in passes]
    return torch.cat([part for pair in parts for part in pair], dim=-1)


def _clipped(network: MLP, theta: Tensor, x: Tensor, labels: Tensor, clip: float) -> list[LayerPass]:
    """Every layer's input, and δ times the factor by which its image is clipped."""
    if network.bias is not None and not all(network.bias):
        raise ReconError("private descent needs a bias in every layer")
    wanted = F.one_hot(labels, network.widths[-1]).to(theta)
    passes = network.layers(network.unflatten(theta), x, lambda z: z.softmax(-1) - wanted)
    squares = sum(p.delta.square().sum(-1) * (p.input.square().sum(-1) + 1) for p in passes)
    factor = (clip / torch.as_tensor(squares).sqrt().clamp_min(1e-30)).clamp(max=1).unsqueeze(-1)
    return [LayerPass(p.weight, p.bias, p.input, p.delta * factor) for p in passes]


def private_descent(
    network: MLP,
    theta: Tensor,
    known: tuple[Tensor, Tensor],
    own: tuple[Tensor, Tensor],
    settings: PrivateDescent,
    generator: torch.Generator,
    watch: Watch | None = None,
) -> Tensor:
    """θ after all steps (S, p), from θ (S, p), of S runs with an image of their own each.

    known: images (n − 1, d) that all runs share, and their labels · own: (S, d) and (S,) · generator: of the noise, on
    the CPU · watch: sees every step.
    """
    n = len(known[0]) + 1
    x_own, labels_own = own[0].unsqueeze(1), own[1].unsqueeze(1)
    for _ in range(settings.steps):
        total = clipped_sum(network, theta, *known, settings.clip)
        total = total + clipped_sum(network, theta, x_own, labels_own, settings.clip)
        drawn = torch.randn(theta.shape, generator=generator, dtype=theta.dtype).to(theta.device)
        released = total + settings.noise * settings.clip * drawn
        if watch is not None:
            watch(theta, released)
        theta = theta - settings.lr / n * released
    return theta


__all__ = ["PrivateDescent", "Watch", "clipped_each", "clipped_sum", "private_descent"]
