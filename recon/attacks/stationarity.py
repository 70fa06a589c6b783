"""The stationarity objective (3), as Haim et al. (2022) and Buzaglo et al. (2023) pose it, with a closed-form gradient.

At a KKT point of the maximum-margin problem, θ = Σ_i c_i ∇_θ Φ(x_i; θ) with c_i = λ_i y_i, λ_i ≥ 0 (y_i = ±1).  So

    R(x, c) = Σ_l ω_l ‖θ_l − Σ_i c_i ∇_{θ_l} Φ(x_i; θ)‖²,        l = 1 … L the layers (weights and bias together),

is zero at the training data.  For a fully connected net ∇_{W_l} Φ(x_i) = δ_{l,i} h_{l−1,i}ᵀ, with activations h, and
δ_L = 1, δ_l = (δ_{l+1} W_{l+1}) ⊙ σ'(z_l).  The derivative of R needs that of ReLU' : as in the reference recipe the
forward pass keeps ReLU, and its derivative is taken to be s = sigmoid(α z) wherever it occurs, with s' = α s (1 − s).

Two forms of the same number, chosen layer by layer by their cost (m images, layer a × b):

    direct   ‖W − δᵀ diag(c) h‖², with weight-sized arrays: three products of m·a·b multiplications;
    Gram     ‖W‖² − 2 Σ c_i ⟨δ_i, z_i⟩ + cᵀ (δδᵀ ⊙ hhᵀ) c: four of m²·(a or b), nothing of the size of W.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP, Params

FORMS = ("auto", "direct", "gram")


@dataclass(frozen=True)
class Stationarity:
    """R and its derivatives: by_layer (..., L), each ω_l ‖·‖² · grad_x (..., m, d) · grad_c (..., m)."""

    by_layer: Tensor
    grad_x: Tensor
    grad_c: Tensor

    @property
    def energy(self) -> Tensor:
        """R, (...,)."""
        return self.by_layer.sum(-1)


@dataclass(frozen=True)
class _Pass:
    """Forward and backward pass: lists over l, index 0 the input. s[l] = σ'(z_l), u[l] = δ_{l+1} W_{l+1}."""

    z: list
    h: list
    s: list
    u: list
    delta: list


def stationarity(
    network: MLP,
    theta: Params,
    x: Tensor,
    c: Tensor,
    *,
    alpha: float = 100.0,
    layer_weights: tuple[float, ...] | None = None,
    form: str = "auto",
    labels: Tensor | None = None,
) -> Stationarity:
    """R(x, c) of the module's head and its gradient, without a graph and without double backward.

    x (..., m, d), c (..., m) signed coefficients, alpha > 0: slope of the smoothed ReLU' (ignored for a net that is
    smooth itself) · layer_weights ω (L,), default ones; a layer of weight 0 is skipped · form: "auto", "direct" or
    "gram" · labels (m,) of a net with several outputs: Φ is then the margin Φ_y − max_{j≠y} Φ_j (Buzaglo et al.).
    Raises ReconError for shapes that do not fit.
    """
    _check(network, x, c, form, layer_weights)
    weights = layer_weights or (1.0,) * network.depth
    alpha = alpha if network.smoothing is None else network.smoothing
    p = _passes(network, theta, x, alpha, labels)
    m, depth = x.shape[-2], network.depth
    coefficient = c.unsqueeze(-1)
    by_layer, grad_c = [], torch.zeros_like(c)
    delta_bar: list = [torch.zeros_like(d) if d is not None else None for d in p.delta]  # adjoints of δ_l
    h_bar: list = [torch.zeros_like(h) for h in p.h]  # adjoints of h_l
    first_by_gram = False
    for layer in range(1, depth + 1):
        omega = weights[layer - 1]
        if omega == 0:
            by_layer.append(torch.zeros_like(c[..., 0]))
            continue
        w, b, h, delta = theta[f"w{layer}"], theta.get(f"b{layer}"), p.h[layer - 1], p.delta[layer]
        scale = -2 * omega * coefficient
        if _by_gram(form, m, *w.shape[-2:]):
            k = h @ h.mT if b is None else h @ h.mT + 1
            d = delta @ delta.mT
            linear, quadratic = (delta * p.z[layer]).sum(-1), ((d * k) @ coefficient).squeeze(-1)
            norm2 = w.square().sum((-2, -1)) + (0 if b is None else b.square().sum(-1))
            by_layer.append(omega * (norm2 - 2 * (c * linear).sum(-1) + (c * quadratic).sum(-1)))
            grad_c = grad_c - 2 * omega * (linear - quadratic)
            delta_bar[layer] = scale * (p.z[layer] - k @ (coefficient * delta))
            h_bar[layer - 1] = -scale * (d @ (coefficient * h))
            if layer > 1:
                h_bar[layer - 1] += scale * p.u[layer - 1]
            else:  # δ_1 W_1 is wanted once more below: both times in one product
                first_by_gram = True
        else:
            residual = w - delta.mT @ (coefficient * h)
            product = h @ residual.mT
            norm2 = residual.square().sum((-2, -1))
            if b is not None:
                residual_b = b - (coefficient * delta).sum(-2)
                product = product + residual_b.unsqueeze(-2)
                norm2 = norm2 + residual_b.square().sum(-1)
            by_layer.append(omega * norm2)
            grad_c = grad_c - 2 * omega * (delta * product).sum(-1)
            delta_bar[layer] = scale * product
            h_bar[layer - 1] = scale * (delta @ residual)
    z_bar = []  # what reaches z_l through δ_l = u_l ⊙ s(z_l); then the chain of δ, from the input to the output
    for layer in range(1, depth):
        s = p.s[layer]
        z_bar.append(delta_bar[layer] * p.u[layer] * (alpha * s * (1 - s)))
        delta_bar[layer + 1] += (delta_bar[layer] * s) @ theta[f"w{layer + 1}"].mT
    for layer in range(depth - 1, 0, -1):  # the chain of h, back to the input
        total = z_bar[layer - 1] + h_bar[layer] * p.s[layer]
        if layer == 1 and first_by_gram:
            total = total - 2 * weights[0] * coefficient * p.delta[1]
        h_bar[layer - 1] = h_bar[layer - 1] + total @ theta[f"w{layer}"]
    if depth == 1 and first_by_gram:
        h_bar[0] = h_bar[0] - 2 * weights[0] * coefficient * (p.delta[1] @ theta["w1"])
    return Stationarity(torch.stack(by_layer, dim=-1), h_bar[0], grad_c)


def gram(
    network: MLP, theta: Params, x: Tensor, *, alpha: float | None = None, labels: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Per layer, K_ij = ⟨∇_{θ_l} Φ(x_i), ∇_{θ_l} Φ(x_j)⟩ (L, m, m) and b_i = ⟨θ_l, ∇_{θ_l} Φ(x_i)⟩ (L, m).

    So R(x, c) = Σ_l ‖θ_l‖² − 2 cᵀb_l + cᵀK_l c: all one needs to fit multipliers.  alpha None: ReLU' itself, a step.
    """
    slope = torch.inf if alpha is None else alpha
    p = _passes(network, theta, x, slope if network.smoothing is None else network.smoothing, labels)
    matrices, products = [], []
    for layer in range(1, network.depth + 1):
        h, delta = p.h[layer - 1], p.delta[layer]
        bias = 1 if f"b{layer}" in theta else 0
        matrices.append((delta @ delta.mT) * (h @ h.mT + bias))
        products.append((delta * p.z[layer]).sum(-1))
    return torch.stack(matrices), torch.stack(products)


def layer_norms(network: MLP, theta: Params) -> Tensor:
    """‖θ_l‖², weights and bias together, (L,)."""
    squares = {name: value.square().sum() for name, value in theta.items()}
    layers = [[v for n, v in squares.items() if int(n[1:]) == i + 1] for i in range(network.depth)]
    return torch.stack([torch.stack(layer).sum() for layer in layers])


def _by_gram(form: str, m: int, a: int, b: int) -> bool:
    return form == "gram" or (form == "auto" and 2 * m * (a + b) < 3 * a * b)


def _slope(z: Tensor, alpha: float) -> Tensor:
    return (z > 0).to(z.dtype) if alpha == torch.inf else torch.sigmoid(alpha * z)


def _passes(network: MLP, theta: Params, x: Tensor, alpha: float, labels: Tensor | None) -> _Pass:
    z: list = [None]
    s: list = [None]
    h = [x]
    for layer in range(1, network.depth + 1):
        out = h[-1] @ theta[f"w{layer}"].mT
        if f"b{layer}" in theta:
            out = out + theta[f"b{layer}"].unsqueeze(-2)
        z.append(out)
        if layer < network.depth:
            h.append(network.activation(out))
            s.append(_slope(out, alpha))
    delta: list = [None] * (network.depth + 1)
    u: list = [None] * (network.depth + 1)
    delta[network.depth] = output_direction(z[-1], labels)
    for layer in range(network.depth - 1, 0, -1):
        u[layer] = delta[layer + 1] @ theta[f"w{layer + 1}"]
        delta[layer] = u[layer] * s[layer]
    return _Pass(z, h, s, u, delta)


def output_direction(outputs: Tensor, labels: Tensor | None) -> Tensor:
    """∂Φ/∂outputs: ones for a single logit; e_y − e_j for the margin against the best other class j."""
    if outputs.shape[-1] == 1:
        return torch.ones_like(outputs)
    if labels is None:
        raise ReconError(f"a network with {outputs.shape[-1]} outputs needs labels")
    true = torch.nn.functional.one_hot(labels.long(), outputs.shape[-1]).to(outputs.dtype)
    other = outputs.masked_fill(true.bool(), -torch.inf).argmax(-1)
    return true - torch.nn.functional.one_hot(other, outputs.shape[-1]).to(outputs.dtype)


def _check(network: MLP, x: Tensor, c: Tensor, form: str, layer_weights: tuple[float, ...] | None) -> None:
    if form not in FORMS:
        raise ReconError(f"unknown form '{form}': choose one of {', '.join(FORMS)}")
    if x.shape[-1] != network.dim or c.shape != x.shape[:-1]:
        raise ReconError(
            f"x {tuple(x.shape)} and coefficients {tuple(c.shape)} do not fit a net with {network.dim} inputs"
        )
    if layer_weights is not None and len(layer_weights) != network.depth:
        raise ReconError(f"layer_weights must have {network.depth} numbers, not {len(layer_weights)}")


__all__ = ["Stationarity", "gram", "layer_norms", "output_direction", "stationarity"]
