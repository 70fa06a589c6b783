"""All that an adversary sees: `Weights` of a trained network, or the `Gradient` of images.

Attacks take this and nothing else of the victim's. Of any `nn.Module`: `Weights.of`, `Gradient.of`
(what its owner would send) and `Gradient.received` (what came).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.conv import ConvNet
from recon.nets.mlp import MLP, Params
from recon.nets.module import Loss, ModuleNetwork
from recon.nets.network import Shape

Device = torch.device | str | None
#: the network of weights: of the closed forms, or any module
W = TypeVar("W", bound=MLP | ModuleNetwork)
#: the network of a gradient: likewise
G = TypeVar("G", bound=ConvNet | ModuleNetwork)


@dataclass(frozen=True)
class Weights(Generic[W]):
    """A released network. ReconError unless θ* and θ⁰ fit the network and are finite.

    Attributes:
        network.
        theta_star: θ* (p,), or one per row (S, p).
        theta_init: θ⁰ of the same shape, where it is known.
        y: labels (n,) of the training images, where they are known.
        weight_decay: of the training, 0 for none.
        n_train: number of the training images, where it is known.
    """

    network: W
    theta_star: Tensor
    theta_init: Tensor | None = None
    y: Tensor | None = None
    weight_decay: float = 0.0
    n_train: int | None = None

    def __post_init__(self) -> None:
        leading = self.theta_star.shape[:-1]
        for name, theta in (("θ*", self.theta_star), ("θ⁰", self.theta_init)):
            if theta is not None:
                _check(name, theta, (*leading, self.network.n_params))

    @staticmethod
    def of(
        module: nn.Module, start: nn.Module | None = None, **known: Any
    ) -> Weights[ModuleNetwork]:
        """Of any module, as it is in evaluation mode. ReconError where the start has other
        parameters.

        Args:
            start: the module before it was trained.
            known: y, weight_decay, n_train.
        """
        network = ModuleNetwork(deepcopy(module).eval() if module.training else module)
        theta_init = None
        if start is not None:
            before = {name: value.detach() for name, value in start.named_parameters()}
            if {name: tuple(value.shape) for name, value in before.items()} != network.shapes():
                raise ReconError(
                    "the start has parameters of other names or shapes than the network"
                )
            theta_init = network.flatten(before)
        return Weights(network, network.flatten(network.parameters()), theta_init, **known)

    def to(self, device: Device = None, dtype: torch.dtype | None = None) -> Weights[W]:
        """The same on another device, or in another precision: attacks compute where and in what θ*
        is.
        """

        tensors = {"theta_star": self.theta_star, "theta_init": self.theta_init, "y": self.y}
        there: dict[str, Any] = {
            name: tensor.to(device=device, dtype=dtype)
            for name, tensor in tensors.items()
            if tensor is not None
        }
        return replace(self, network=_move(self.network, device, dtype), **there)

    @property
    def params(self) -> Params:
        """θ* by name."""
        return self.network.unflatten(self.theta_star)

    @property
    def params_init(self) -> Params | None:
        """θ⁰ by name, where it is known."""
        return None if self.theta_init is None else self.network.unflatten(self.theta_init)


@dataclass(frozen=True)
class Gradient(Generic[G]):
    """What an adversary of shared gradients sees: a network with its weights, and gradients. Of a
    module it is one gradient, B = 1, that of the mean loss of all images that `labels` (n,) belong
    to. ReconError unless all tensors fit the network and are finite, and the labels of a `ConvNet`
    are whole numbers in their range.

    Attributes:
        network.
        theta: θ by name.
        labels: (B,) in 0 … classes − 1.
        gradients: ∇_θ ℓ of *one* image each, named as θ, each tensor with a leading dimension B.
        loss: ℓ.
    """

    network: G
    theta: Params
    labels: Tensor
    gradients: Params
    loss: Loss = F.cross_entropy

    def __post_init__(self) -> None:
        shapes = self.network.shapes()
        count = len(self.labels) if isinstance(self.network, ConvNet) else 1
        if not (self.theta.keys() == self.gradients.keys() == shapes.keys()):
            raise ReconError(
                f"θ and its gradients must hold one tensor per parameter: {', '.join(shapes)}"
            )
        for name, shape in shapes.items():
            _check(name, self.theta[name], shape)
            _check(f"the gradient of {name}", self.gradients[name], (count, *shape))
        if isinstance(self.network, ConvNet):
            check_labels(self.labels, self.network.classes)

    @staticmethod
    def of(module: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> Gradient[ModuleNetwork]:
        """What the owner of images x (n, ...) with labels y (n,) sends: ∇_θ loss(module(x), y) of
        any module in evaluation mode.
        """
        network = ModuleNetwork(module)
        return _of_module(network, loss, network.gradient(network.parameters(), loss, x, y), y)

    @staticmethod
    def received(
        module: nn.Module,
        loss: Loss,
        gradients: Mapping[str, Tensor] | Sequence[Tensor],
        y: Tensor | None = None,
    ) -> Gradient[ModuleNetwork]:
        """What came from somebody with the same module: by name, or in the order of
        `module.parameters()`. ReconError where that has not exactly one negative entry, and for
        tensors that do not fit.

        Args:
            y (n,): labels of the images; without them it is taken to be of one image, whose label
                is read off the last bias, ∂ℓ/∂b = p − e_y (Zhao et al. 2020).
        """
        network = ModuleNetwork(module)
        names = list(network.shapes())
        if not isinstance(gradients, Mapping):
            if len(gradients) != len(names):
                raise ReconError(
                    f"{len(gradients)} gradients do not fit a network of {len(names)} parameter"
                    " tensors"
                )
            gradients = dict(zip(names, gradients, strict=True))
        present = {name for name, gradient in gradients.items() if gradient is not None}
        if odd := present ^ set(names):
            raise ReconError(
                f"gradients must be those of the network's parameters: '{min(odd)}' is missing or"
                " foreign"
            )
        return _of_module(network, loss, {name: gradients[name].detach() for name in names}, y)

    @staticmethod
    def each(network: ConvNet, theta: Params, x: Tensor, labels: Tensor) -> Gradient:
        """The gradients of images x (B, c, h, w), each by itself, in closed form."""
        check_labels(labels, network.classes)
        return Gradient(network, theta, labels, network.gradients(theta, x, labels))

    @staticmethod
    def averaged(network: ConvNet, theta: Params, x: Tensor, labels: Tensor) -> Gradient:
        """The mean gradient of a batch x (n, c, h, w), as federated learning shares it: B = 1,
        labelled by the first image. Not of one image: attacks notice it by eq. (4).
        """
        single = Gradient.each(network, theta, x, labels).gradients
        mean = {name: g.mean(0, keepdim=True) for name, g in single.items()}
        return Gradient(network, theta, labels[:1], mean)

    def at(self, x: Tensor) -> Params:
        """What these gradients would be of other images x (n, ...), in the same order; can be
        differentiated.
        """
        if isinstance(self.network, ConvNet):
            return self.network.gradients(self.theta, x, self.labels)
        gradient = self.network.gradient(self.theta, self.loss, x, self.labels)
        return {name: g[None] for name, g in gradient.items()}

    def to(self, dtype: torch.dtype | None = None, device: Device = None) -> Gradient[G]:
        """The same in another precision, or on another device."""
        there: dict[str, Any] = {"device": device, "dtype": dtype}
        theta = {name: value.to(**there) for name, value in self.theta.items()}
        gradients = {name: value.to(**there) for name, value in self.gradients.items()}
        network, labels = _move(self.network, device, dtype), self.labels.to(device=device)
        return replace(self, network=network, theta=theta, labels=labels, gradients=gradients)

    def split(self) -> list[Gradient[G]]:
        """One `Gradient` (B = 1) for each image; of a module the gradient as it is."""
        if not isinstance(self.network, ConvNet):
            return [self]
        victims = []
        for b in range(len(self.labels)):
            gradients = {name: g[b : b + 1] for name, g in self.gradients.items()}
            victims.append(replace(self, labels=self.labels[b : b + 1], gradients=gradients))
        return victims


def _move(network: Any, device: Device, dtype: torch.dtype | None) -> Any:
    """A copy of a module, its buffers with it; the other networks hold no tensors."""
    if not isinstance(network, ModuleNetwork):
        return network
    return ModuleNetwork(deepcopy(network.module).to(device=device, dtype=dtype))


def _check(name: str, tensor: Tensor, shape: Shape) -> None:
    if tensor.shape != shape:
        raise ReconError(f"{name} must have shape {shape}, not {tuple(tensor.shape)}")
    if not torch.isfinite(tensor).all():
        raise ReconError(f"{name} holds numbers that are not finite")


def _of_module(
    network: ModuleNetwork, loss: Loss, gradients: Params, y: Tensor | None
) -> Gradient[ModuleNetwork]:
    if y is None:
        y = _label_of(list(gradients.values())[-1])
    return Gradient(
        network, network.parameters(), y, {name: g[None] for name, g in gradients.items()}, loss
    )


def _label_of(last: Tensor) -> Tensor:
    negative = (last < 0).nonzero() if last.dim() == 1 else last.new_empty(0, 1)
    if len(negative) != 1 or not (last > 0).any():
        raise ReconError(
            "the label cannot be read off the last bias: pass the labels of the images"
        )
    return negative[0]


def check_labels(labels: Tensor, classes: int) -> None:
    """ReconError unless labels are whole numbers from 0 to classes − 1."""
    if labels.dtype != torch.int64 or not ((labels >= 0) & (labels < classes)).all():
        raise ReconError(f"labels must be whole numbers from 0 to {classes - 1}")
