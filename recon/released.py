"""All that an adversary sees: `Weights` of a trained network, or the `Gradient` of an image.

Attacks take this and nothing else of the victim's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.conv import ConvNet
from recon.nets.mlp import MLP, Params


@dataclass(frozen=True)
class Weights:
    """A released network.

    network · theta_star: θ* (p,), or one per row (S, p) · theta_init: θ⁰ of the same shape, where it is known · y:
    labels (n,) of the training images, where they are known · weight_decay: of the training, 0 for none · n_train:
    number of the training images, where it is known.
    ReconError unless θ* and θ⁰ fit the network and are finite.
    """

    network: MLP
    theta_star: Tensor
    theta_init: Tensor | None = None
    y: Tensor | None = None
    weight_decay: float = 0.0
    n_train: int | None = None

    def __post_init__(self) -> None:
        for name, theta in (("θ*", self.theta_star), ("θ⁰", self.theta_init)):
            if theta is None:
                continue
            if theta.dim() < 1 or theta.shape[-1] != self.network.n_params:
                raise ReconError(
                    f"{name} has shape {tuple(theta.shape)}, the network {self.network.n_params} parameters"
                )
            if not torch.isfinite(theta).all():
                raise ReconError(f"{name} holds numbers that are not finite")
        if self.theta_init is not None and self.theta_init.shape != self.theta_star.shape:
            raise ReconError(f"θ⁰ has shape {tuple(self.theta_init.shape)}, θ* {tuple(self.theta_star.shape)}")

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Weights:
        """The same on another device, or in another precision: attacks compute where and in what θ* is."""
        moved = {
            name: tensor.to(device=device, dtype=dtype)
            for name, tensor in (("theta_star", self.theta_star), ("theta_init", self.theta_init), ("y", self.y))
            if tensor is not None
        }
        return replace(self, **moved)  # type: ignore[arg-type]

    @property
    def params(self) -> Params:
        """θ* by name."""
        return self.network.unflatten(self.theta_star)

    @property
    def params_init(self) -> Params | None:
        """θ⁰ by name, where it is known."""
        return None if self.theta_init is None else self.network.unflatten(self.theta_init)


@dataclass(frozen=True)
class Gradient:
    """What the adversary of Chen & Campbell (2022) sees: a network with its weights, and the gradients of B images.

    network · theta: θ by name · labels: (B,) in 0 … classes − 1 · gradients: ∇_θ ℓ of *one* image each, named as θ,
    each tensor with a leading dimension B.
    ReconError unless all tensors fit the network and are finite, and the labels are whole numbers in their range.
    """

    network: ConvNet
    theta: Params
    labels: Tensor
    gradients: Params

    def __post_init__(self) -> None:
        shapes, count = self.network.shapes(), len(self.labels)
        if not (self.theta.keys() == self.gradients.keys() == shapes.keys()):
            raise ReconError(f"θ and its gradients must hold one tensor per parameter: {', '.join(shapes)}")
        for name, shape in shapes.items():
            check_shape(name, self.theta[name], shape)
            check_shape(f"the gradient of {name}", self.gradients[name], (count, *shape))
        if not all(torch.isfinite(tensor).all() for tensor in (*self.theta.values(), *self.gradients.values())):
            raise ReconError("θ and its gradients must be finite")
        check_labels(self.labels, self.network.classes)

    @staticmethod
    def of(
        network: ConvNet,
        theta: Params,
        x: Tensor,
        labels: Tensor,
        noise: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Gradient:
        """The gradients of images x (B, c, h, w), each by itself.

        noise: σ of N(0, σ²) on every entry, relative to the root mean square of its tensor; drawn from `generator`,
        without which ReconError.
        """
        check_labels(labels, network.classes)
        if noise and generator is None:
            raise ReconError("noise is drawn from a generator: pass one")
        gradients = network.gradients(theta, x, labels)
        if noise:
            for name, g in gradients.items():
                drawn = torch.randn(g.shape, generator=generator, dtype=g.dtype)
                gradients[name] = g + noise * g.square().mean().sqrt() * drawn.to(g)
        return Gradient(network, theta, labels, gradients)

    @staticmethod
    def averaged(network: ConvNet, theta: Params, x: Tensor, labels: Tensor) -> Gradient:
        """The mean gradient of a batch x (n, c, h, w), as federated learning shares it: B = 1, labelled by the first
        image.  Not of one image: attacks notice it by eq. (4)."""
        mixed = Gradient.of(network, theta, x, labels).gradients
        return Gradient(network, theta, labels[:1], {name: g.mean(0, keepdim=True) for name, g in mixed.items()})

    def to(self, dtype: torch.dtype) -> Gradient:
        """The same in another precision."""
        theta, gradients = ({k: v.to(dtype) for k, v in d.items()} for d in (self.theta, self.gradients))
        return Gradient(self.network, theta, self.labels, gradients)

    def split(self) -> list[Gradient]:
        """One `Gradient` (B = 1) for each image."""
        return [
            Gradient(
                self.network, self.theta, self.labels[b : b + 1], {k: g[b : b + 1] for k, g in self.gradients.items()}
            )
            for b in range(len(self.labels))
        ]


def check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """ReconError unless a tensor has this shape."""
    if tensor.shape != shape:
        raise ReconError(f"{name} must have shape {shape}, not {tuple(tensor.shape)}")


def check_labels(labels: Tensor, classes: int) -> None:
    """ReconError unless labels are whole numbers from 0 to classes − 1."""
    if labels.dtype != torch.int64 or not ((labels >= 0) & (labels < classes)).all():
        raise ReconError(f"labels must be whole numbers from 0 to {classes - 1}")
