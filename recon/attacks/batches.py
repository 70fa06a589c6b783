"""The mean gradient of a batch as one system in all its images.

    h(x_1, …, x_n) = (1/n) Σ_i g(x_i; y_i) = h*.

n·c·h·w unknowns, one equation for each parameter. The labels have to be known. Images of one label
can change places; those of different labels cannot. Gauss–Newton (`recon.attacks.gauss_newton`)
solves it from faint noise, which tells images of one label apart.

`BatchSystem` has JᵀJ in closed form for a `ConvNet`; `ModuleSystem` is any module, with a dense
Jacobian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.func import vjp

from recon.attacks.gauss_newton import Dense, Normal, jacobian_columns
from recon.errors import ReconError
from recon.nets.conv import ConvNet, cross_entropy_direction
from recon.nets.module import ModuleNetwork
from recon.nets.network import Params, Shape
from recon.released import Gradient, check_labels

FAINT = 0.1  # standard deviation of a start


def _faint_noise(labels: Tensor, shape: Shape, seed: int = 0) -> Tensor:
    """N(0, 0.1²) for every image, drawn on the CPU, as one vector."""
    generator, size = torch.Generator().manual_seed(seed), len(labels) * math.prod(shape)
    noise = torch.randn(size, generator=generator, dtype=torch.float64)
    return FAINT * noise.to(labels.device)


@dataclass(frozen=True)
class BatchSystem:
    """
    Attributes:
        network.
        theta: float64.
        labels (n,): of the images.
        target (p,): h*, all tensors as one vector.
        seed: of the start. x holds all images, (n·c·h·w,).
    """

    network: ConvNet
    theta: Params
    labels: Tensor
    target: Tensor
    seed: int = 0

    @staticmethod
    def of(gradient: Gradient, labels: Tensor, seed: int = 0) -> BatchSystem:
        """From a mean gradient (B = 1) and the labels (n,) of its images; ReconError for several
        gradients.
        """
        if len(gradient.labels) != 1:
            raise ReconError(f"one mean gradient at a time, not {len(gradient.labels)}")
        check_labels(labels, gradient.network.classes)
        gradient = gradient.to(torch.float64)
        target = torch.cat([g.flatten() for g in gradient.gradients.values()])
        return BatchSystem(gradient.network, gradient.theta, labels, target, seed)

    @property
    def start(self) -> Tensor:
        """Faint noise (n·c·h·w,)."""
        return _faint_noise(self.labels, self.network.shape, self.seed)

    def images(self, x: Tensor) -> Tensor:
        """(n, c, h, w)."""
        return x.view(len(self.labels), *self.network.shape)

    def __call__(self, x: Tensor) -> Tensor:
        """h(x), (p,)."""
        gradients = self.network.gradients(self.theta, self.images(x), self.labels)
        return torch.cat([g.mean(0).flatten() for g in gradients.values()])

    def linear(self, x: Tensor) -> Normal:
        """By JᵀJ, since J has a row for every parameter."""
        _, pull, *_ = vjp(self, x)
        return Normal(self.gram(x), lambda residual: pull(residual)[0])

    def gram(self, x: Tensor) -> Tensor:
        """JᵀJ (n·c·h·w, n·c·h·w).

        No row of the fully connected layer is formed: its gradient δfᵀ has, for images i, j and
        pixels a, b of theirs,

            ⟨∂_a(δ_i f_iᵀ), ∂_b(δ_j f_jᵀ)⟩ = (∂_aδ_i·∂_bδ_j)(f_i·f_j) + (∂_aδ_i·δ_j)(f_i·∂_bf_j)
                                             + (δ_i·∂_bδ_j)(∂_af_i·f_j) + (δ_i·δ_j)(∂_af_i·∂_bf_j).
        """
        parts = [
            self._parts(image, self.labels[i : i + 1])
            for i, image in enumerate(self.images(x).flatten(1))
        ]
        size, n = math.prod(self.network.shape), len(parts)
        gram = x.new_empty(n, size, n, size)
        for i, first in enumerate(parts):
            for j, second in enumerate(parts[: i + 1]):
                block = first.products(second) / n**2
                gram[i, :, j], gram[j, :, i] = block, block.mT
        return gram.view(n * size, n * size)

    def _parts(self, image: Tensor, label: Tensor) -> _Parts:
        def passes(pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            *convolutions, last = self.network.layers(
                self.theta, pixels.view(1, *self.network.shape), cross_entropy_direction(label)
            )
            shared = [(layer.delta[0] @ layer.input[0].mT).flatten() for layer in convolutions]
            return (
                last.input[0],
                last.delta[0],
                torch.cat(shared) if shared else pixels.new_zeros(0),
            )

        features, delta, _ = passes(image)
        return _Parts(features, delta, *jacobian_columns(passes, image))


@dataclass(frozen=True)
class _Parts:
    """Of one image: f (F,), δ (k,), and the derivatives of f, δ and the convolutions' gradients by
    each pixel.
    """

    f: Tensor
    delta: Tensor
    df: Tensor
    ddelta: Tensor
    dshared: Tensor

    def products(self, other: _Parts) -> Tensor:
        """Their block of JᵀJ, (pixels, pixels)."""
        weight = (self.f @ other.f + 1) * (self.ddelta @ other.ddelta.mT)  # + 1: the bias
        weight += (self.delta @ other.delta) * (self.df @ other.df.mT)
        weight += torch.outer(self.ddelta @ other.delta, other.df @ self.f)
        weight += torch.outer(self.df @ other.f, other.ddelta @ self.delta)
        return weight + self.dshared @ other.dshared.mT


@dataclass(frozen=True)
class ModuleSystem:
    """h(x) = s(x) g(x)/‖g‖, all parameters as one vector, for the n images of one gradient g, x
    (n·c·h·w,). The scale s(x) = ⟨g(x), g⟩/‖g(x)‖² is the best at x (variable projection, Golub &
    Pereyra 1973): nobody knows by what a gradient was clipped, or whether it is a sum or a mean.

    Attributes:
        gradient: in float64.
        shape: of one image as the module takes it.
    """

    gradient: Gradient[ModuleNetwork]
    shape: Shape

    @staticmethod
    def of(gradient: Gradient[ModuleNetwork], shape: Shape) -> ModuleSystem:
        """In float64, whatever the module computes in."""
        return ModuleSystem(gradient.to(torch.float64), shape)

    @property
    def start(self) -> Tensor:
        """Faint noise (n·c·h·w,)."""
        return _faint_noise(self.gradient.labels, self.shape)

    @cached_property
    def target(self) -> Tensor:
        """What was sent (p,), of norm 1."""
        sent = torch.cat([g.flatten() for g in self.gradient.gradients.values()])
        return sent / sent.norm()

    def __call__(self, x: Tensor) -> Tensor:
        """h(x), (p,)."""
        gradients = self.gradient.at(x.view(-1, *self.shape))
        g = torch.cat([g.flatten() for g in gradients.values()])
        return (g @ self.target) / (g @ g) * g

    def linear(self, x: Tensor) -> Dense:
        """With the whole Jacobian, (p, n·c·h·w): for small networks."""
        return Dense(jacobian_columns(self, x).mT)
