"""All that an adversary sees: `Weights` of a trained network, or the `Gradient` of images.

Attacks take this and nothing else of the victim's. Of any `nn.Module`: `Weights.of`, `Gradient.of`
(what its owner would send) and `Gradient.received` (what came).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recon.errors import ReconError, one_reason
from recon.nets.conv import ConvNet
from recon.nets.mlp import MLP, Params
from recon.nets.module import Loss, ModuleNetwork
from recon.nets.network import Shape

Device = torch.device | str | None
#: the network of weights: of the closed forms, or any module
W = TypeVar("W", bound=MLP | ModuleNetwork)
#: the network of a gradient: likewise
G = TypeVar("G", bound=ConvNet | ModuleNetwork)
ONE_IMAGE = 1e-3  # a fully connected gradient of one image has rank 1 up to this share of its norm
ALONE = 1e-6  # up to this where the label is read off it
COARSE = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


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
    to. ReconError unless all tensors fit the network and are finite, no gradient is zero, there is
    an image, and the labels of a `ConvNet` are whole numbers in their range.

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
        if not (len(self.labels) and any(g.any() for g in self.gradients.values())):
            raise ReconError("a gradient is of one image at least, and not zero")

    @staticmethod
    def of(module: nn.Module, loss: Loss, x: Tensor, y: Any) -> Gradient[ModuleNetwork]:
        """What the owner of images x (n, ...) with labels y (n,), or one whole number, sends: ∇_θ
        loss(module(x), y) of any module in evaluation mode.
        """
        network, labels = ModuleNetwork(module), _labels(y)
        with one_reason("the network, its loss, the images and the labels do not fit"):
            theta = network.parameters()
            gradients = network.gradient(theta, loss, torch.as_tensor(x), labels)
        return Gradient.received(module, loss, gradients, labels)

    @staticmethod
    def received(
        module: nn.Module,
        loss: Loss,
        gradients: Mapping[str, Any] | Iterable[Any],
        y: Any = None,
    ) -> Gradient[ModuleNetwork]:
        """What came from somebody with the same module, as tensors or arrays: by name, or in the
        order of `module.parameters()`. ReconError for what does not fit.

        Args:
            y (n,): labels of the images, or one whole number; without them it is taken to be of one
                image, whose label is read off the layer that answers, ∂ℓ/∂b = p − e_y (Zhao et al.
                2020). ReconError unless one layer alone could be that.
        """
        network = ModuleNetwork(module)
        theta = network.parameters()
        with one_reason(f"gradients must be arrays, one for each of {len(theta)} parameters"):
            if not isinstance(gradients, Mapping):
                gradients = dict(zip(theta, gradients, strict=True))
            device = next(iter(theta.values())).device
            tensors = {
                name: torch.as_tensor(gradients[name]).detach().to(device)[None]
                for name in dict.fromkeys([*theta, *gradients])
            }
        labels = _label_of(tensors) if y is None else _labels(y).to(device)
        return Gradient(network, theta, labels, tensors, loss)

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
            return self.network.gradients(self.theta, x.view(-1, *self.network.shape), self.labels)
        gradient = self.network.gradient(self.theta, self.loss, x, self.labels)
        return {name: g[None] for name, g in gradient.items()}

    def to(self, dtype: torch.dtype | None = None, device: Device = None) -> Gradient[G]:
        """The same in another precision, or on another device."""

        def moved(tensors: Params) -> Params:
            return {name: value.to(device, dtype) for name, value in tensors.items()}

        there: dict[str, Any] = {"theta": moved(self.theta), "gradients": moved(self.gradients)}
        network, labels = _move(self.network, device, dtype), self.labels.to(device=device)
        return replace(self, network=network, labels=labels, **there)

    def split(self) -> list[Gradient[G]]:
        """One `Gradient` (B = 1) for each image; of a module the gradient as it is."""
        if not isinstance(self.network, ConvNet):
            return [self]
        rows = zip(*(g.split(1) for g in self.gradients.values()), strict=True)
        return [
            replace(self, labels=label, gradients=dict(zip(self.gradients, row, strict=True)))
            for label, row in zip(self.labels.split(1), rows, strict=True)
        ]


def _move(network: Any, device: Device, dtype: torch.dtype | None) -> Any:
    """A copy of a module, its buffers with it; the other networks hold no tensors."""
    if not isinstance(network, ModuleNetwork):
        return network
    return ModuleNetwork(deepcopy(network.module).to(device=device, dtype=dtype))


def _check(name: str, tensor: Tensor, shape: Shape) -> None:
    if tensor.shape != shape:
        raise ReconError(f"{name} must have shape {shape}, not {tuple(tensor.shape)}")
    if not (tensor.is_floating_point() and tensor.double().norm().isfinite()):
        raise ReconError(f"{name} holds numbers that are not finite, or no real numbers")


def _labels(y: Any) -> Tensor:
    """(n,), whole numbers as int64; what a loss takes otherwise, such as soft labels, as it is."""
    with one_reason("labels must be numbers"):
        labels = torch.as_tensor(y)
    labels = labels if labels.is_floating_point() else labels.long()
    return labels.reshape(1) if labels.dim() == 0 else labels


def _label_of(gradients: Params) -> Tensor:
    """Of one image: of the layer whose ∂ℓ/∂b sums to 0 with one negative entry, and has rank 1
    together with its weight gradient.
    """
    close, labels = max(ALONE, rounding(gradients)), []
    for name, bias in gradients.items():
        weight = gradients.get(f"{name.removesuffix('bias')}weight", bias)
        if bias.dim() != 2 or weight.dim() < 3 or weight.shape[1] != bias.shape[1]:
            continue
        sent = torch.cat([weight[0].flatten(1), bias.mT], dim=1).double()
        delta = sent[:, -1]
        balanced = delta.sum().abs() <= max(ONE_IMAGE, close) * delta.norm()
        if balanced and (delta < 0).sum() == 1 == torch.linalg.matrix_rank(sent, rtol=close):
            labels.append(delta.argmin()[None])
    if len(labels) != 1:
        raise ReconError("no layer alone answers for one image: pass the labels of the images")
    return labels[0]


def rounding(gradients: Params) -> float:
    """8 ε of the coarsest format that holds all these numbers: relative differences up to this are
    rounding.
    """
    for dtype in COARSE:
        if all(torch.equal(g.to(dtype).to(g.dtype), g) for g in gradients.values()):
            break
    return 8 * torch.finfo(dtype).eps


def check_labels(labels: Tensor, classes: int) -> None:
    """ReconError unless labels are whole numbers from 0 to classes − 1."""
    if labels.dtype != torch.int64 or not ((labels >= 0) & (labels < classes)).all():
        raise ReconError(f"labels must be whole numbers from 0 to {classes - 1}")
