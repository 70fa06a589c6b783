"""R-GAP (Zhu & Blaschko 2021) as Chen & Campbell (2022) pose it: layer by layer, the minimum-norm solution of U x = V.

From the output to the image: eq. (4) gives x_d, then for i = d … 1, with z_i = σ⁻¹(x_i) (2) and ∇_{z_i} ℓ (3),

    x_{i−1} = argmin ‖x‖  among the minimisers of  ‖U_i x − V_i‖,   U_i = [W_i; K_i],  V_i = [z_i; ∇_{W_i} ℓ].      (8)
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from recon.attacks.fully_connected import features_from_fully_connected
from recon.attacks.operators import System, system_of
from recon.errors import ReconError
from recon.released import Gradient

RIDGE = 1e-12  # of the Gram matrix's mean diagonal, for its factorisation; refinement takes its effect away


def minimum_norm(system: System, v: np.ndarray, tol: float = 1e-14, max_iter: int = 100) -> np.ndarray:
    """The minimum-norm least-squares solution of U x = v, by iterated Tikhonov regularisation.

    x ← x + (UᵀU + μI)⁻¹ Uᵀ (v − U x) from x = 0, or with Uᵀ(UUᵀ + μI)⁻¹ if that is smaller, converges to it for every
    μ > 0, whatever the rank (Engl, Hanke & Neubauer 1996); with this tiny μ within a few steps.  One Cholesky factor.
    """
    gram = system.gram()
    ridge = RIDGE * np.trace(gram) / len(gram)
    gram[np.diag_indices(len(gram))] += ridge
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    tall = system.shape[1] <= system.shape[0]
    x = np.zeros(system.shape[1])
    last = float("inf")
    for _ in range(max_iter):
        residual = v - system.apply(x)
        if tall:
            change = scipy.linalg.cho_solve(factor, system.adjoint(residual), check_finite=False)
        else:
            for _ in range(2):  # what U cannot reach would be divided by μ and drown the rest in rounding
                residual = residual - ridge * scipy.linalg.cho_solve(factor, residual, check_finite=False)
            change = system.adjoint(scipy.linalg.cho_solve(factor, residual, check_finite=False))
        size = float(np.linalg.norm(change))
        if size >= last:  # rounding has taken over
            break
        x, last = x + change, size
        if size <= tol * np.linalg.norm(x):
            break
    return x


@dataclass(frozen=True)
class LayerSystem:
    """Layer i on the way back: x_{i−1} by minimum norm (1, c, h, w), and what defines its system: z_i, ∇_{z_i} ℓ."""

    layer: int
    x: Tensor
    z: Tensor
    delta: Tensor


def layer_by_layer(gradient: Gradient, check: bool = True) -> Generator[LayerSystem, Tensor | None, None]:
    """The layers d … 1 of one image's gradient (B = 1), float64; each from the one before.

    A caller may `send` a better x_{i−1}: the next layer goes on from that (`Hybrid`).  check: refuse gradients of more
    than one image.
    """
    if len(gradient.labels) != 1:
        raise ReconError(f"layer by layer goes one image at a time, not {len(gradient.labels)}")
    gradient = gradient.to(torch.float64)
    network, shapes = gradient.network, gradient.network.image_shapes()
    x = features_from_fully_connected(gradient, check).view(1, *shapes[-1])
    last, bias = network.last
    back = (gradient.gradients[bias] @ gradient.theta[last]).view_as(x)  # ∂ℓ/∂b = ∇_logits ℓ
    for layer in range(network.depth, 0, -1):
        conv, weight, shape = network.convs[layer - 1], gradient.theta[f"w{layer}"], shapes[layer - 1]
        z, delta = network.activation.inverse(x), back * network.activation.slope(x)
        system = system_of(conv, weight, delta[0], shape)
        v = np.concatenate([z.flatten().numpy(), gradient.gradients[f"w{layer}"].flatten().numpy()])
        x = torch.from_numpy(minimum_norm(system, v)).view(1, *shape)
        better = yield LayerSystem(layer, x, z, delta)
        x = x if better is None else better.to(torch.float64)
        back = conv.transpose(delta, weight, shape)


def rgap(gradient: Gradient, check: bool = True) -> Tensor:
    """The image (1, c, h, w) by R-GAP, float64.  ReconError for ReLU, and (check) for gradients of several images."""
    layers = list(layer_by_layer(gradient, check))
    if not layers:
        raise ReconError("the network has no convolution: eq. (4) alone gives the image")
    return layers[-1].x


__all__ = ["LayerSystem", "layer_by_layer", "minimum_norm", "rgap"]
