"""A fully connected layer gives its input away: eqs. (4) and (5) of Chen & Campbell (2022).

For z = W x + b the gradients are ∂ℓ/∂W_kj = (∂ℓ/∂z_k) x_j and ∂ℓ/∂b_k = ∂ℓ/∂z_k: a ratio is the input (4).  Without a
bias x_j = (∂ℓ/∂W_kj)/(∂ℓ/∂z_k) (5), and ∂ℓ/∂z_k has to come from elsewhere: for the last layer from the softmax.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.released import Gradient

ONE_IMAGE = 1e-3  # a fully connected gradient of one image has rank 1 up to this share of its norm


def features_from_fully_connected(gradient: Gradient, check: bool = True) -> Tensor:
    """Eq. (4): x_j = (∂ℓ/∂W_kj)/(∂ℓ/∂b_k), (B, features), with the k of largest |∂ℓ/∂b_k|.

    Raises ReconError if no bias has a gradient, or (check) if the gradient is not that of a single image: then eq. (4)
    returns a mixture of the batch's features, weighted by their ∂ℓ/∂b_k.
    """
    matrix, bias = (gradient.gradients[name] for name in gradient.network.last)
    row = bias.abs().argmax(-1)
    each = torch.arange(len(row))
    if not (bias[each, row].abs() > 0).all():
        raise ReconError("the bias has no gradient: eq. (4) cannot be solved")
    features = matrix[each, row] / bias[each, row, None]
    rest = (matrix - bias.unsqueeze(-1) * features.unsqueeze(-2)).flatten(1).norm(dim=1)
    if check and (rest > ONE_IMAGE * matrix.flatten(1).norm(dim=1)).any():
        raise ReconError("this is the gradient of more than one image (or a noisy one): eq. (4) needs a batch of one")
    return features


def logit_gradients(weight: Tensor, gradient: Tensor, label: int, bias: Tensor | None = None) -> Tensor:
    """∂ℓ/∂z (K,) of a last layer that releases no gradient of a bias, so that eq. (5) gives its input.

    The gradient G (K, F) is δ xᵀ with δ = softmax(z) − e_label, z = W x + b.  Its leading singular vectors are δ and x
    up to one factor s: x = s u, δ = v/s.  For classes k other than the label δ_k = exp(z_k)/Σ exp(z), and so

        log |v_k| − b_k = s (W u)_k + constant,

    a straight line through K − 1 points: s is its slope.

    weight W (K, F), K ≥ 3 · bias b (K,), default 0.  ReconError for a gradient of more than one image, or of none.
    """
    if not (torch.isfinite(gradient).all() and gradient.norm() > 0):
        raise ReconError("the gradient of the last layer is zero or not finite: eq. (5) cannot be solved")
    left, values, right = torch.linalg.svd(gradient.double(), full_matrices=False)
    if len(values) > 1 and values[1] > ONE_IMAGE * values[0]:
        raise ReconError("this is the gradient of more than one image (or a noisy one): eq. (5) needs a batch of one")
    v, along = values[0] * left[:, 0], weight.double() @ right[0]
    offset = torch.zeros_like(along) if bias is None else bias.double()
    others = (torch.arange(len(v)) != label) & (v.abs() > torch.finfo(v.dtype).tiny)
    if int(others.sum()) < 2:
        raise ReconError("eq. (5) without a bias needs at least three classes with a gradient")
    height, place = (v[others].abs().log() - offset[others]), along[others]
    height, place = height - height.mean(), place - place.mean()
    delta = (height @ place / (place @ place) * along + offset).softmax(0)
    delta[label] -= 1
    return delta


__all__ = ["features_from_fully_connected", "logit_gradients"]
