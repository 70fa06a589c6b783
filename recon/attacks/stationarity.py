"""The stationarity objective (3), as Haim et al. (2022) and Buzaglo et al. (2023) pose it, with a
closed-form gradient.

At a KKT point of the maximum-margin problem, θ = Σ_i c_i ∇_θ Φ(x_i; θ) with c_i = λ_i y_i, λ_i ≥ 0
(y_i = ±1). So

    R(x, c) = Σ_l ω_l ‖θ_l − Σ_i c_i ∇_{θ_l} Φ(x_i; θ)‖²,

l = 1 … L the layers (weights and bias together), is zero at the training data. For a fully
connected net ∇_{W_l} Φ(x_i) = δ_{l,i} h_{l−1,i}ᵀ, with activations h, and δ_L = 1, δ_l = (δ_{l+1}
W_{l+1}) ⊙ σ'(z_l). The derivative of R needs that of ReLU' : as in the reference recipe the forward
pass keeps ReLU, and its derivative is taken to be s = sigmoid(α z) wherever it occurs, with s' = α
s (1 − s).

Two forms of the same number, chosen layer by layer by their cost (m images, layer a × b):

    direct   ‖W − δᵀ diag(c) h‖², with weight-sized arrays: three products of m·a·b multiplications;
    Gram     ‖W‖² − 2 Σ c_i ⟨δ_i, z_i⟩ + cᵀ (δδᵀ ⊙ hhᵀ) c: four of m²·(a or b), and nothing
             of the size of W.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP, Passes
from recon.released import Weights


@dataclass(frozen=True)
class Stationarity:
    """R and its derivatives:

    Attributes:
        by_layer (..., L), each ω_l ‖·‖².
        grad_x (..., m, d).
        grad_c (..., m).
    """

    by_layer: Tensor
    grad_x: Tensor
    grad_c: Tensor

    @property
    def energy(self) -> Tensor:
        """R, (...,)."""
        return self.by_layer.sum(-1)


def stationarity(
    weights: Weights,
    x: Tensor,
    c: Tensor,
    *,
    alpha: float = 100.0,
    layer_weights: tuple[float, ...] | None = None,
) -> Stationarity:
    """R(x, c) of the module's head and its gradient, without a graph and without double backward.
    Raises ReconError for shapes that do not fit.

    Args:
        x (..., m, d), c (..., m) signed coefficients, alpha > 0: slope of the smoothed ReLU'
            (ignored for a net that is smooth itself).
        layer_weights ω (L,), default ones; a layer of weight 0 is skipped.
    """
    network, theta = weights.network, weights.params
    _check(network, x, c, layer_weights)
    omega = layer_weights or (1.0,) * network.depth
    alpha = alpha if network.smoothing is None else network.smoothing
    p = network.passes(theta, x, torch.ones_like, alpha=alpha)
    by_layer, grad_c = [], torch.zeros_like(c)
    # adjoints of δ_l
    delta_bar: list = [torch.zeros_like(d) if d is not None else None for d in p.delta]
    h_bar: list = [torch.zeros_like(h) for h in p.h]  # adjoints of h_l
    # of δ_1 W_1 in the Gram form, which is wanted with the chain of h: both times in one product
    first_scale = None
    for layer, (weight, bias) in enumerate(network.names, start=1):
        if omega[layer - 1] == 0:
            by_layer.append(torch.zeros_like(c[..., 0]))
            continue
        w, b = theta[weight], theta[bias] if bias else None
        m, (outputs, inputs) = x.shape[-2], w.shape[-2:]
        by_gram = 2 * m * (outputs + inputs) < 3 * outputs * inputs
        term = (_gram_term if by_gram else _direct_term)(p, layer, w, b, c)
        by_layer.append(omega[layer - 1] * term.norm2)
        grad_c = grad_c - 2 * omega[layer - 1] * term.grad_c
        scale = -2 * omega[layer - 1] * c.unsqueeze(-1)
        delta_bar[layer] = scale * term.delta_bar
        h_bar[layer - 1] = scale * term.h_bar
        if by_gram and layer > 1:
            h_bar[layer - 1] += scale * p.reached[layer - 1]
        elif by_gram:
            first_scale = scale
    matrices = [theta[weight] for weight, _ in network.names]
    grad_x = _to_images(p, matrices, delta_bar, h_bar, alpha, first_scale)
    return Stationarity(torch.stack(by_layer, dim=-1), grad_x, grad_c)


@dataclass(frozen=True)
class _Term:
    """‖θ_l − Σ_i c_i ∇_l Φ(x_i)‖² (...,) of one layer and its derivatives by c_i (..., m), δ_l and
    h_{l−1}, but for a factor each: −2 of grad_c, −2 c_i of delta_bar and h_bar.
    """

    norm2: Tensor
    grad_c: Tensor
    delta_bar: Tensor
    h_bar: Tensor


def _direct_term(p: Passes, layer: int, w: Tensor, b: Tensor | None, c: Tensor) -> _Term:
    h, delta, coefficient = p.h[layer - 1], p.delta[layer], c.unsqueeze(-1)
    residual = w - delta.mT @ (coefficient * h)
    product = h @ residual.mT
    norm2 = residual.square().sum((-2, -1))
    if b is not None:
        residual_b = b - (coefficient * delta).sum(-2)
        product = product + residual_b.unsqueeze(-2)
        norm2 = norm2 + residual_b.square().sum(-1)
    return _Term(norm2, (delta * product).sum(-1), product, delta @ residual)


def _gram_term(p: Passes, layer: int, w: Tensor, b: Tensor | None, c: Tensor) -> _Term:
    """h_bar is without δ_l W_l, which the passes hold already, or which is wanted later."""
    h, z, delta, coefficient = p.h[layer - 1], p.z[layer], p.delta[layer], c.unsqueeze(-1)
    k = h @ h.mT if b is None else h @ h.mT + 1
    d = delta @ delta.mT
    linear, quadratic = (delta * z).sum(-1), ((d * k) @ coefficient).squeeze(-1)
    norm2 = w.square().sum((-2, -1)) + (0 if b is None else b.square().sum(-1))
    energy = norm2 - 2 * (c * linear).sum(-1) + (c * quadratic).sum(-1)
    return _Term(energy, linear - quadratic, z - k @ (coefficient * delta), d @ (-coefficient * h))


def _to_images(
    p: Passes,
    weights: list[Tensor],
    delta_bar: list,
    h_bar: list,
    alpha: float,
    first_scale: Tensor | None,
) -> Tensor:
    """∂R/∂x (..., m, d) from the adjoints of all δ_l and h_l: along the chain of δ, then back along
    that of h.
    """
    depth = len(weights)
    # what reaches z_l through δ_l = u_l ⊙ s(z_l); then the chain of δ, from the input to the output
    z_bar = []
    for layer in range(1, depth):
        s = p.slope[layer]
        z_bar.append(delta_bar[layer] * p.reached[layer] * (alpha * s * (1 - s)))
        delta_bar[layer + 1] += (delta_bar[layer] * s) @ weights[layer].mT
    for layer in range(depth - 1, 0, -1):  # the chain of h, back to the input
        total = z_bar[layer - 1] + h_bar[layer] * p.slope[layer]
        if layer == 1 and first_scale is not None:
            total = total + first_scale * p.delta[1]
        h_bar[layer - 1] = h_bar[layer - 1] + total @ weights[layer - 1]
    if depth == 1 and first_scale is not None:
        h_bar[0] = h_bar[0] + first_scale * (p.delta[1] @ weights[0])
    return h_bar[0]


def _check(network: MLP, x: Tensor, c: Tensor, layer_weights: tuple[float, ...] | None) -> None:
    if network.widths[-1] != 1:
        raise ReconError(f"one logit is wanted, not {network.widths[-1]} outputs")
    if x.shape[-1] != network.dim or c.shape != x.shape[:-1]:
        raise ReconError(
            f"x {tuple(x.shape)} and coefficients {tuple(c.shape)} do not fit {network.dim} inputs"
        )
    if layer_weights is not None and len(layer_weights) != network.depth:
        raise ReconError(
            f"layer_weights must have {network.depth} numbers, not {len(layer_weights)}"
        )
