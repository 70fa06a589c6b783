"""What follows from the layers' passes alone: per-image gradients ∇_l Φ(x_i), their Gram matrices,
products with θ_l.

A linear layer z = W h + b has ∇_W Φ(x_i) = δ_i h_iᵀ and ∇_b Φ(x_i) = δ_i, so that inner products of
gradients are products of two small Gram matrices, and no gradient need be formed:

    ⟨∇_l Φ(x_i), ∇_l Φ(x_j)⟩ = ⟨δ_i, δ_j⟩ (⟨h_i, h_j⟩ + 1),     ⟨θ_l, ∇_l Φ(x_i)⟩ = ⟨δ_i, z_i⟩,

with + 1 for the bias, where there is one. A convolution sums over the positions that share its
weights; its gradients are small, and are formed.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.nets.network import LayerPass, Params


def per_image_gradients(passes: list[LayerPass]) -> Params:
    """∇_θ Φ(x_i) by name: of a weight (..., n, out, in), of a bias (..., n, out). A convolution's
    `in` is channels · kernel height · kernel width, in the order of its weight's dimensions.
    """
    gradients: Params = {}
    for layer in passes:
        delta = layer.delta
        if layer.shared:
            gradients[layer.weight] = delta @ layer.input.mT
        else:
            gradients[layer.weight] = delta.unsqueeze(-1) * layer.input.unsqueeze(-2)
        if layer.bias:
            gradients[layer.bias] = delta.sum(-1) if layer.shared else delta
    return gradients


def gram(
    network: MLP,
    theta: Params,
    x: Tensor,
    *,
    alpha: float | None = None,
    labels: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Per layer, K_ij = ⟨∇_l Φ(x_i), ∇_l Φ(x_j)⟩ (L, ..., n, n) and b_i = ⟨θ_l, ∇_l Φ(x_i)⟩ (L,
    ..., n). So R(x, c) = Σ_l ‖θ_l‖² − 2 cᵀb_l + cᵀK_l c: all one needs to fit multipliers.

    Args:
        x (..., n, d).
        alpha: slope of the smoothed ReLU', None for the step itself.
        labels (n,): see `output_direction`.
    """
    p = network.passes(theta, x, lambda outputs: output_direction(outputs, labels), alpha=alpha)
    matrices, products = [], []
    for h, z, delta, (_, bias) in zip(p.h, p.z[1:], p.delta[1:], network.names, strict=True):
        matrices.append((delta @ delta.mT) * (h @ h.mT + (1 if bias else 0)))
        products.append((delta * z).sum(-1))
    return torch.stack(matrices), torch.stack(products)


def layer_norms(network: MLP, theta: Params) -> Tensor:
    """‖θ_l‖² of every layer, weights and bias together, (L,)."""
    squares = (sum(theta[name].square().sum() for name in names if name) for names in network.names)
    return torch.stack([torch.as_tensor(layer) for layer in squares])


def output_direction(outputs: Tensor, labels: Tensor | None) -> Tensor:
    """∂Φ/∂outputs (..., n, K): ones for a single logit; e_y − e_j for the margin against the best
    other class j.

    Args:
        labels (n,): the classes y; ReconError where they are missing.
    """
    if outputs.shape[-1] == 1:
        return torch.ones_like(outputs)
    if labels is None:
        raise ReconError(f"a network with {outputs.shape[-1]} outputs needs labels")
    true = one_hot(labels.long(), outputs.shape[-1]).to(outputs.dtype)
    other = outputs.masked_fill(true.bool(), -torch.inf).argmax(-1)
    return true - one_hot(other, outputs.shape[-1]).to(outputs.dtype)
