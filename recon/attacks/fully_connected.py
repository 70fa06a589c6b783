"""A fully connected layer gives its input away: eq. (4) of Chen & Campbell (2022).

For z = W x + b the gradients are ∂ℓ/∂W_kj = (∂ℓ/∂z_k) x_j and ∂ℓ/∂b_k = ∂ℓ/∂z_k: a ratio is the input.
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


__all__ = ["features_from_fully_connected"]
