"""A whole gradient as one system in the image, h(x) = h*, and Gauss–Newton on it.

Chen & Campbell (2022) solve layer by layer; a layer whose own system U_i x_{i−1} = V_i (7) lacks
rank is taken to lose the image. But ∇_{W_1} ℓ, …, ∇_{W_i} ℓ and x_i are all functions of the same
image x = x_0, and together they may determine it. From the output to the image, layers with full
rank are solved exactly, as in R-GAP. Of the first layer i that is not, x_i and ∂ℓ/∂x_i are known,
and what is left is

    h(x) = (x_i(x), ∇_{W_1} ℓ(x), …, ∇_{W_i} ℓ(x)) = h*,

each block over the norm of its target. The gradient is a smooth function of h and the other way
round, so that both have the same solutions, and Jacobians of the same rank at a solution.

Its Jacobian is made of sparse matrices: an entry of a convolution's output depends on few pixels,
and so does an entry of what is sent back through it. Forward or reverse mode would compute all the
zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from recon.attacks.gauss_newton import Dense
from recon.attacks.rgap import (
    LayerSystem,
    convolution_matrix,
    generic_deficiencies,
    gradient_matrix,
)
from recon.nets.conv import ConvNet
from recon.nets.gram import per_image_gradients
from recon.nets.module import ModuleNetwork
from recon.nets.network import Params
from recon.released import Gradient, rounding

PEELED = 1e-9  # relative residual up to which a layer counts as solved, of float64
CERTAIN = 1e-8  # relative residual of the whole that counts as rounding, likewise
TINY = 1e-300


@dataclass(frozen=True)
class JointSystem:
    """h(x) = h* for one image x (c·h·w,), float64.

    Attributes:
        depth: i, the number of convolutions that are left; 0: `output` is the image, and h the
            identity.
        output: x_i (c, h, w).
        back: ∂ℓ/∂x_i.
        targets: ∇_{W_1} ℓ … ∇_{W_i} ℓ.
    """

    network: ConvNet
    theta: Params
    depth: int
    output: Tensor
    back: Tensor
    targets: list[Tensor]

    @staticmethod
    def of(gradient: Gradient, peel: bool = True) -> JointSystem:
        """From the gradient of one image (B = 1), on the CPU, where SciPy solves.

        Args:
            peel: whether layers with full rank are solved first · ReconError for several images,
                and for an activation without an inverse.
        """
        at = LayerSystem.last(gradient)
        network, exact = at.gradient.network, at.gradient
        deficiencies = generic_deficiencies(network)
        solved = max(PEELED, rounding(exact.gradients))
        while peel and at.layer and deficiencies[at.layer - 1] == 0:
            system, v = at.system, at.v
            if not system.full_rank():
                break
            misfit = system.apply(at.x.flatten().numpy()) - v
            if np.linalg.norm(misfit) > solved * np.linalg.norm(v):
                break
            at = at.before(at.x)
        targets = [exact.gradients[f"w{i}"] for i in range(1, at.layer + 1)]
        return JointSystem(network, exact.theta, at.layer, at.output[0], at.back[0], targets)

    @property
    def unknowns(self) -> int:
        """Entries of the image."""
        return int(np.prod(self.network.shape))

    @property
    def start(self) -> Tensor:
        """Grey, (unknowns,); the image, where it is known already."""
        return (
            self.output.flatten().clone()
            if self.depth == 0
            else torch.zeros(self.unknowns, dtype=torch.float64)
        )

    @property
    def target(self) -> Tensor:
        """h*, (rows,)."""
        return self._joined([block.flatten() for block in (self.output, *self.targets)])

    def _joined(self, blocks: Sequence[Tensor]) -> Tensor:
        """Each over the norm of its target, along the first dimension."""
        norms = (
            target.norm().clamp_min(torch.finfo(target.dtype).tiny)
            for target in (self.output, *self.targets)
        )
        return torch.cat([block / norm for block, norm in zip(blocks, norms, strict=True)])

    def __call__(self, x: Tensor) -> Tensor:
        """h(x), (rows,)."""
        if self.depth == 0:
            return self._joined([x])
        image, network = x.view(1, *self.network.shape), self.network
        layers, z = network.chain(self.theta, image, lambda _: self.back[None], last=self.depth)
        blocks = network.activation(z[-1]), *per_image_gradients(layers).values()
        return self._joined([block.flatten() for block in blocks])

    def jacobian(self, x: Tensor) -> Tensor:
        """∂h/∂x (rows, unknowns) at an image x (c·h·w,), float64; `back` is held fixed.

        Forwards, with A_j the matrix of convolution j, z_j = A_j x_{j−1} and dx_j = σ'(z_j) A_j
        dx_{j−1}. Backwards, from b_i = back and db_i = 0,

            δ_j = b_j σ'(z_j),   dδ_j = db_j σ'(z_j) + b_j dσ'(z_j),
            d∇_{W_j} ℓ = K(δ_j) dx_{j−1} + dδ_j · patches(x_{j−1})ᵀ,   b_{j−1} = A_jᵀ δ_j,   db_{j−1} = A_jᵀ dδ_j,

        K of eq. (1b).
        """  # noqa: E501
        network, activation = self.network, self.network.activation
        shapes, back = network.image_shapes(), self.back
        images, tangents = [x.view(shapes[0])], [sparse.eye_array(len(x), format="csr")]
        for conv, matrix in zip(network.convs, self._matrices, strict=False):
            weight = self.theta[f"w{len(images)}"]
            images.append(activation(conv.apply(images[-1][None], weight))[0])
            tangents.append(_scaled(activation.slope(images[-1]), matrix @ tangents[-1]))
        blocks: list[np.ndarray] = []
        dback = sparse.csr_array(tangents[-1].shape)
        for j in range(self.depth, 0, -1):
            conv, slope = network.convs[j - 1], activation.slope(images[j])
            delta = back * slope
            ddelta = _scaled(slope, dback) + _scaled(back * activation.bend(images[j]), tangents[j])
            taps = conv.patches(images[j - 1][None])[0].numpy()
            height = ddelta.shape[0] // conv.channels
            moved = [
                taps @ ddelta[k * height : (k + 1) * height].toarray() for k in range(conv.channels)
            ]
            through = gradient_matrix(conv, delta, shapes[j - 1]) @ tangents[j - 1]
            blocks.insert(0, np.concatenate(moved) + through)
            if j > 1:
                back = conv.transpose(delta[None], self.theta[f"w{j}"], shapes[j - 1])[0]
                dback = self._matrices[j - 1].T.tocsr() @ ddelta
        blocks.insert(0, tangents[-1].toarray())
        return self._joined([torch.from_numpy(block) for block in blocks])

    @cached_property
    def _matrices(self) -> list[sparse.csr_array]:
        """A_j of the convolutions that are left, which do not depend on the image."""
        network, shapes = self.network, self.network.image_shapes()
        return [
            convolution_matrix(network.convs[j], self.theta[f"w{j + 1}"], shapes[j])
            for j in range(self.depth)
        ]

    def linear(self, x: Tensor) -> Dense:
        """With the whole Jacobian."""
        return Dense(self.jacobian(x))


def scale_and_residual(
    gradient: Gradient | Gradient[ModuleNetwork], x: Tensor
) -> tuple[float, float]:
    """The scale s ≥ 0 of the gradient, which nobody knows where it was clipped, summed or averaged,
    and the residual, both in float64:

        s = argmin ‖s g(x) − g‖ = max(0, ⟨g, g(x)⟩) / ‖g(x)‖²,   ‖s g(x) − g‖ / ‖g‖,

    over all parameters. The adversary sees both. g: of one image (B = 1), x (c·h·w,), or of all
    images x (n, ...) that have one gradient by a module.
    """
    exact: Any = gradient.to(torch.float64)
    at = exact.at(x.detach().to(exact.labels.device, torch.float64))
    pairs = [torch.stack((at[name], g)).flatten(1) for name, g in exact.gradients.items()]
    g_x, g = torch.cat(pairs, dim=1)
    scale = (g @ g_x).relu() / (g_x @ g_x + TINY)
    return float(scale), float((scale * g_x - g).norm() / g.norm())


def certain(gradient: Gradient | Gradient[ModuleNetwork]) -> float:
    """Relative residual that counts as rounding of the format in which the gradient came."""
    return max(CERTAIN, rounding(gradient.gradients))


def relative_residual(gradient: Gradient | Gradient[ModuleNetwork], x: Tensor) -> float:
    """min_s ‖s g(x) − g‖ / ‖g‖, of `scale_and_residual`."""
    return scale_and_residual(gradient, x)[1]


def _scaled(values: Tensor, matrix: sparse.csr_array) -> sparse.csr_array:
    """Every row times its value: a diagonal matrix in front, without the product of two sparse
    matrices.
    """
    factors = np.repeat(values.flatten().numpy(), np.diff(matrix.indptr))
    return sparse.csr_array(
        (matrix.data * factors, matrix.indices, matrix.indptr), shape=matrix.shape
    )
