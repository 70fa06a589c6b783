"""Other training sets that satisfy the same KKT conditions: splitting one image into several.

While the set of active units, its *cell*, stays the same, a ReLU network's gradient ∇_θ Φ(x) is
affine in the image x: that of a layer is δ hᵀ with δ constant on the cell and h affine. So for
images z_k of one cell and shares α_k ≥ 0,

    λ y ∇Φ(Σ_k α_k z_k) = Σ_k (α_k λ) y ∇Φ(z_k),    Σ_k α_k = 1,

and one image with multiplier λ can be replaced by several around it, or several of one class by
their mean (the lemmas of Refael et al. 2026). What the weights hold of a cell is the sum of its
multipliers and the mean of its images.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP, Params


@dataclass(frozen=True)
class Points:
    """Images that may explain weights: x (m, d) as the network sees them, y (m,) in {0, 1},
    multipliers λ (m,) ≥ 0.

    ReconError unless all have the same number of rows.
    """

    x: Tensor
    y: Tensor
    multipliers: Tensor

    def __post_init__(self) -> None:
        if self.x.dim() != 2 or not (len(self.x) == len(self.y) == len(self.multipliers)):
            raise ReconError("images, labels and multipliers must be as many as each other")

    def __len__(self) -> int:
        return len(self.x)


def summed(network: MLP, theta: Params, points: Points) -> Params:
    """Σ_i λ_i y_i ∇_θ Φ(x_i; θ) with y_i = ±1, named as θ, for a network with one logit (else
    ReconError).
    """
    if network.widths[-1] != 1:
        raise ReconError("the sum of gradients is that of a network with one logit")
    signed = (points.multipliers * (2 * points.y.to(points.multipliers) - 1))[:, None]
    sums: Params = {}
    passes = network.passes(theta, points.x, torch.ones_like)
    for (weight, bias), inputs, delta in zip(
        network.names, passes.h, passes.delta[1:], strict=True
    ):
        sums[weight] = (signed * delta).mT @ inputs
        if bias:
            sums[bias] = (signed * delta).sum(0)
    return sums


def apart(a: Params, b: Params) -> float:
    """‖a − b‖ / ‖b‖ of two sums, all parameters together."""
    difference = sum((a[name] - b[name]).square().sum() for name in b)
    return float((difference / sum(value.square().sum() for value in b.values())) ** 0.5)


def split(points: Points, v: Tensor) -> Points:
    """Every image twice, at x_i + v_i and at x_i − v_i with half of λ_i each; v (m, d)."""
    x = torch.cat([points.x + v, points.x - v])
    return Points(x, points.y.repeat(2), points.multipliers.repeat(2) / 2)
