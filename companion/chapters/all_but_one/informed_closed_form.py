"""All images but one: what a linear model's weights add to that knowledge is the last image, and its label.

At a minimum of eq. (4) the gradients balance, n·wd·θ* + Σ_i p_i x̄_i = 0, with x̄ = (x, 1) and p = ∂L/∂z at the logit z.
Whoever knows all images but t computes

    v = −n·wd·θ* − Σ_{i≠t} p_i x̄_i = p_t x̄_t     (Balle, Cherubin & Hayes 2022, generalised linear models).

Its last entry is p_t, its ratios are the image, and p_t = σ(z_t) − y_t tells the label.  This equation is one more than
there are unknowns: the label comes out as 0 or 1, or something that was taken for known is not so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.released import Weights

#: loss -> (∂L/∂z at logits z for labels y in {0, 1}; the label that a logit and a slope ∂L/∂z belong to)
LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "logistic": (lambda z, y: torch.sigmoid(z) - y, lambda z, slope: torch.sigmoid(z) - slope),
    "mse": (lambda z, y: z - (2 * y - 1), lambda z, slope: (z - slope + 1) / 2),
}


@dataclass(frozen=True)
class Missing:
    """x (d,): the image · label: as the equation gives it, not rounded · slope: p_t = ∂L/∂z, how strongly the image
    holds on to the weights; errors of θ* come back divided by it."""

    x: Tensor
    label: float
    slope: float

    @property
    def doubt(self) -> float:
        """Distance of the label from 0 or 1, whichever is nearer: 0 up to rounding if all that is known is true."""
        return min(abs(self.label), abs(self.label - 1))


def missing_image(weights: Weights, x: Tensor, y: Tensor, loss_name: str = "logistic") -> Missing:
    """The image that is not among x (n − 1, d) with labels y (n − 1,) in {0, 1}, from the affine θ* (d + 1,).

    Needs the weight decay and the bias, which is decayed like all of θ.  Computes in the dtype of x.  ReconError for
    another network, other shapes, an unknown loss, or where nothing is left over, as if no image were missing.
    """
    if weights.network.depth != 1 or weights.theta_star.shape != (weights.network.dim + 1,):
        raise ReconError("the closed form needs the affine network with one output and a bias, and one θ*")
    if loss_name not in LOSSES:
        raise ReconError(f"unknown loss '{loss_name}': choose {' or '.join(LOSSES)}")
    if x.dim() != 2 or x.shape[1] != weights.network.dim or y.shape != x.shape[:1]:
        raise ReconError(f"images {tuple(x.shape)} and labels {tuple(y.shape)} do not fit {weights.network.dim} inputs")
    slope_of, label_of = LOSSES[loss_name]
    theta = weights.theta_star.to(x)
    slopes = slope_of(x @ theta[:-1] + theta[-1], y.to(x))
    left = -(len(x) + 1) * weights.weight_decay * theta - torch.cat([slopes @ x, slopes.sum()[None]])
    if left[-1] == 0:
        raise ReconError("nothing is left over: no image is missing, or it leaves no trace")
    found, slope = left[:-1] / left[-1], left[-1]
    label = label_of(found @ theta[:-1] + theta[-1], slope)
    return Missing(found, label.item(), slope.item())


__all__ = ["LOSSES", "Missing", "missing_image"]
