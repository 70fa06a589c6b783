"""What the adversary has: the network, its weights, the label, and the gradient of one image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.conv import ConvNet

ONE_IMAGE = 1e-3  # a fully connected gradient of one image has rank 1 up to this share of its norm


@dataclass(frozen=True)
class Leak:
    """Released: weights [W_1, …, W_d, W, b], and for each of B victims the label (B,) and the gradient of *one* image,
    [(B, o, c·k·k), …, (B, classes, features), (B, classes)] as `ConvNet.gradients` orders them."""

    network: ConvNet
    weights: list[Tensor]
    labels: Tensor
    gradients: list[Tensor]

    def __post_init__(self) -> None:
        network, count = self.network, len(self.labels)
        if len(self.weights) != network.depth + 2 or len(self.gradients) != network.depth + 2:
            raise ReconError(f"{network.depth + 2} weights and as many gradients are needed, one per parameter tensor")
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            if gradient.shape[0] != count or gradient[0].numel() != weight.numel():
                raise ReconError(
                    f"a gradient of shape {tuple(gradient.shape)} does not fit {count} images and weights "
                    f"{tuple(weight.shape)}"
                )
        if not all(torch.isfinite(tensor).all() for tensor in (*self.weights, *self.gradients)):
            raise ReconError("weights and gradients must be finite")
        if self.labels.dtype != torch.int64 or not ((self.labels >= 0) & (self.labels < network.classes)).all():
            raise ReconError(f"labels must be whole numbers from 0 to {network.classes - 1}")

    @staticmethod
    def of(
        network: ConvNet, weights: list[Tensor], x: Tensor, labels: Tensor, noise: float = 0.0, seed: int = 0
    ) -> Leak:
        """The gradients of images x (B, c, h, w), each by itself; plus N(0, noise² · mean square of each tensor)."""
        if labels.dtype != torch.int64 or not ((labels >= 0) & (labels < network.classes)).all():
            raise ReconError(f"labels must be whole numbers from 0 to {network.classes - 1}")
        gradients = network.gradients(weights, x, labels)
        if noise:
            generator = torch.Generator().manual_seed(seed)
            gradients = [
                g + noise * g.square().mean().sqrt() * torch.randn(g.shape, generator=generator, dtype=g.dtype).to(g)
                for g in gradients
            ]
        return Leak(network, weights, labels, gradients)

    def to(self, dtype: torch.dtype) -> Leak:
        """The same in another precision."""
        weights, gradients = ([t.to(dtype) for t in tensors] for tensors in (self.weights, self.gradients))
        return Leak(self.network, weights, self.labels, gradients)


def averaged_gradient(network: ConvNet, weights: list[Tensor], x: Tensor, labels: Tensor) -> Leak:
    """The mean gradient of a batch x (B, …), as federated learning shares it; labelled by the first image."""
    gradients = [g.mean(0, keepdim=True) for g in network.gradients(weights, x, labels)]
    return Leak(network, weights, labels[:1], gradients)


def features_from_fully_connected(leak: Leak, check: bool = True) -> Tensor:
    """Eq. (4): x_j = (∂ℓ/∂W_kj)/(∂ℓ/∂b_k), (B, features), with the k of largest |∂ℓ/∂b_k|.

    Raises ReconError if no bias has a gradient, or (check) if the gradient is not that of a single image: then eq. (4)
    returns a mixture of the batch's features, weighted by their ∂ℓ/∂b_k.
    """
    matrix, bias = leak.gradients[-2], leak.gradients[-1]
    row = bias.abs().argmax(-1)
    each = torch.arange(len(row))
    if not (bias[each, row].abs() > 0).all():
        raise ReconError("the bias has no gradient: eq. (4) cannot be solved")
    features = matrix[each, row] / bias[each, row, None]
    rest = (matrix - bias.unsqueeze(-1) * features.unsqueeze(-2)).flatten(1).norm(dim=1)
    if check and (rest > ONE_IMAGE * matrix.flatten(1).norm(dim=1)).any():
        raise ReconError("this is the gradient of more than one image (or a noisy one): eq. (4) needs a batch of one")
    return features


def features_without_bias(weight_gradient: Tensor, output_gradient: Tensor, slope: Tensor) -> Tensor:
    """Eq. (5), a fully connected layer without bias: x_j = (∂ℓ/∂W_kj)/((∂ℓ/∂x^out_k) σ'(z_k)).

    weight_gradient (k, j), output_gradient (k,), slope σ'(z) (k,) -> (j,); the k of largest denominator.
    """
    denominator = output_gradient * slope
    row = int(denominator.abs().argmax())
    if denominator[row] == 0:
        raise ReconError("the layer's output has no gradient: eq. (5) cannot be solved")
    return weight_gradient[row] / denominator[row]


__all__ = [
    "Leak",
    "averaged_gradient",
    "features_from_fully_connected",
    "features_without_bias",
]
