"""A whole gradient as one system in the image, h(x) = h*, and Gauss–Newton on it.

Chen & Campbell (2022) solve layer by layer; a layer whose own system U_i x_{i−1} = V_i (7) lacks rank is taken to lose
the image.  But ∇_{W_1} ℓ, …, ∇_{W_i} ℓ and x_i are all functions of the same image x = x_0, and together they may
determine it.  From the output to the image, layers with full rank are solved exactly, as in R-GAP.  Of the first layer
i that is not, x_i and ∂ℓ/∂x_i are known, and what is left is

    h(x) = (x_i(x), ∇_{W_1} ℓ(x), …, ∇_{W_i} ℓ(x)) = h*,

each block over the norm of its target.  The gradient is a smooth function of h and the other way round, so that both
have the same solutions, and Jacobians of the same rank at a solution.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from recon.attacks.fully_connected import features_from_fully_connected
from recon.attacks.operators import generic_rank, system_of
from recon.attacks.rgap import minimum_norm
from recon.errors import ReconError
from recon.nets.conv import ConvNet, cross_entropy_direction
from recon.nets.network import Params
from recon.released import Gradient

PEELED = 1e-9  # relative residual up to which a layer counts as solved
CHUNK = 128  # columns or rows of the Jacobian at a time


@dataclass(frozen=True)
class JointSystem:
    """h(x) = h* for one image x (c·h·w,), float64.

    depth: i, the number of convolutions that are left; 0: `output` is the image · output: x_i (c, h, w) · back:
    ∂ℓ/∂x_i · targets: ∇_{W_1} ℓ … ∇_{W_i} ℓ by name.
    """

    network: ConvNet
    theta: Params
    depth: int
    output: Tensor
    back: Tensor
    targets: Params

    @staticmethod
    def of(gradient: Gradient, peel: bool = True) -> JointSystem:
        """From the gradient of one image (B = 1).

        peel: whether layers with full rank are solved first · ReconError for several images, and for an activation
        without an inverse.
        """
        if len(gradient.labels) != 1:
            raise ReconError(f"one image at a time, not {len(gradient.labels)}")
        gradient = gradient.to(torch.float64)
        network, shapes = gradient.network, gradient.network.image_shapes()
        x = features_from_fully_connected(gradient).view(1, *shapes[-1])
        last, bias = network.last
        back = (gradient.gradients[bias] @ gradient.theta[last]).view_as(x)
        depth = network.depth
        while peel and depth:
            conv, weight, shape = network.convs[depth - 1], gradient.theta[f"w{depth}"], shapes[depth - 1]
            target = gradient.gradients[f"w{depth}"]
            if generic_rank(conv, shape) < math.prod(shape):
                break
            delta = back * network.activation.slope(x)
            system = system_of(conv, weight, delta[0], shape)
            v = np.concatenate([network.activation.inverse(x).flatten().numpy(), target.flatten().numpy()])
            before = minimum_norm(system, v)
            if np.linalg.norm(system.apply(before) - v) > PEELED * np.linalg.norm(v):
                break
            x, back = torch.from_numpy(before).view(1, *shape), conv.transpose(delta, weight, shape)
            depth -= 1
        targets = {f"w{i}": gradient.gradients[f"w{i}"] for i in range(1, depth + 1)}
        return JointSystem(network, gradient.theta, depth, x[0], back[0], targets)

    @property
    def unknowns(self) -> int:
        """Entries of the image."""
        return int(np.prod(self.network.shape))

    @property
    def target(self) -> Tensor:
        """h*, (rows,)."""
        return self._blocks([self.output, *(self.targets[f"w{i}"] for i in range(1, self.depth + 1))])

    def _blocks(self, found: list[Tensor]) -> Tensor:
        """Each over the norm of its target, as one vector."""
        targets = [self.output, *(self.targets[f"w{i}"] for i in range(1, self.depth + 1))]
        norms = (target.norm().clamp_min(torch.finfo(target.dtype).tiny) for target in targets)
        return torch.cat([each.flatten() / norm for each, norm in zip(found, norms, strict=True)])

    def __call__(self, x: Tensor) -> Tensor:
        """h(x), (rows,)."""
        network, shapes = self.network, self.network.image_shapes()
        image, inputs, outputs = x.view(1, *shapes[0]), [], []
        for i in range(1, self.depth + 1):
            inputs.append(network.convs[i - 1].patches(image))
            image = network.activation(self.theta[f"w{i}"].flatten(1) @ inputs[-1]).view(1, *shapes[i])
            outputs.append(image)
        gradients: list[Tensor] = []
        back = self.back[None]
        for i in range(self.depth, 0, -1):
            delta = back * network.activation.slope(outputs[i - 1])
            gradients.insert(0, delta.flatten(2) @ inputs[i - 1].mT)
            if i > 1:
                back = network.convs[i - 1].transpose(delta, self.theta[f"w{i}"], shapes[i - 1])
        return self._blocks([image, *gradients])

    def jacobian(self, x: Tensor) -> Tensor:
        """∂h/∂x (rows, unknowns), by rows or by columns, whichever are fewer."""
        rows = len(self.target)
        if rows > len(x):
            return by_columns(self, x).mT
        _, back, *_ = vjp(self, x)
        unit = torch.eye(rows, dtype=x.dtype, device=x.device)
        return vmap(lambda row: back(row)[0], chunk_size=CHUNK)(unit)


@dataclass(frozen=True)
class RowSpace:
    """Of a Jacobian J (rows, unknowns).  basis (unknowns, rank): orthonormal, of what J sees · values: all singular
    values that can be other than 0, from greatest to least."""

    basis: Tensor
    values: Tensor

    @staticmethod
    def of(jacobian: Tensor) -> RowSpace:
        """By eigenvalues of the smaller Gram matrix: singular values above √(ε · Σσ²), about 1e-8 of the largest,
        count."""
        wide = jacobian.shape[0] < jacobian.shape[1]
        gram = jacobian @ jacobian.mT if wide else jacobian.mT @ jacobian
        squares, vectors = torch.linalg.eigh(gram)
        counted = squares > torch.finfo(gram.dtype).eps * squares.sum()
        basis = vectors[:, counted]
        if wide:
            basis = jacobian.mT @ (basis / squares[counted].sqrt())
        return RowSpace(basis, squares.clamp_min(0).sqrt().flip(0))

    def unseen(self, x: Tensor) -> Tensor:
        """Projection of x (unknowns,) onto the kernel of J."""
        return x - self.basis @ (self.basis.mT @ x)


def by_columns(function: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Derivatives of all that `function` returns by each entry of x (k,), tensors with a leading dimension k."""
    unit = torch.eye(len(x), dtype=x.dtype, device=x.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch's own, when forward mode is first used
        return vmap(lambda column: jvp(function, (x,), (column,))[1], chunk_size=CHUNK)(unit)


@dataclass(frozen=True)
class Solved:
    """x (c·h·w,) · energy: ‖h(x) − h*‖² after every iteration, the start's first."""

    x: Tensor
    energy: Tensor


def gauss_newton(
    system: JointSystem,
    x_init: Tensor | None = None,
    steps: int = 30,
    tol: float = 1e-24,
    damping: float = 1e-3,
    box: tuple[float, float] | None = None,
) -> Solved:
    """Levenberg–Marquardt: x ← x − (JᵀJ + μI)⁻¹ Jᵀ (h(x) − h*), from x_init (c·h·w,), default grey.

    μ is `damping` times the mean diagonal, a tenth after a step that lowered the energy, ten times as much after one
    that did not.  It stops at ‖h(x) − h*‖² ≤ tol or after `steps` linear systems; it never sees the image.  box: bounds
    that every iterate keeps; entries at a bound that a step would cross stay there, and the others do their part.
    """
    grey = torch.zeros(system.unknowns, dtype=torch.float64)
    x = grey if x_init is None else x_init.to(torch.float64).flatten()
    if system.depth == 0:
        return Solved(system.output.flatten().clone(), torch.zeros(1, dtype=torch.float64))
    target = system.target
    residual = system(x) - target
    energies = [residual.square().sum()]
    jacobian = system.jacobian(x)
    for _ in range(steps):
        if energies[-1] <= tol:
            break
        candidate = x - _step(jacobian, residual, damping)
        if box is not None:
            held = ((x <= box[0]) & (candidate < box[0])) | ((x >= box[1]) & (candidate > box[1]))
            if held.any():
                candidate = x - _step(jacobian * ~held, residual, damping)
            candidate = candidate.clamp(*box)
        remaining = system(candidate) - target
        energy = remaining.square().sum()
        if energy < energies[-1]:
            x, residual, damping = candidate, remaining, max(damping / 10, 1e-14)
            jacobian = system.jacobian(x) if energy > tol else jacobian
            energies.append(energy)
        elif damping > 1e6:
            break
        else:
            damping *= 10
    return Solved(x, torch.stack(energies))


def _step(jacobian: Tensor, residual: Tensor, damping: float) -> Tensor:
    """(JᵀJ + μI)⁻¹ Jᵀ r, or Jᵀ (JJᵀ + μI)⁻¹ r where that is smaller."""
    by_columns = jacobian.shape[0] >= jacobian.shape[1]
    gram = jacobian.mT @ jacobian if by_columns else jacobian @ jacobian.mT
    gram.diagonal().add_(damping * gram.diagonal().mean())
    right = (jacobian.mT @ residual if by_columns else residual).unsqueeze(-1)
    factor, failed = torch.linalg.cholesky_ex(gram)
    solved = torch.linalg.lstsq(gram, right).solution if bool(failed) else torch.cholesky_solve(right, factor)
    return (solved if by_columns else jacobian.mT @ solved).squeeze(-1)


def relative_residual(gradient: Gradient, x: Tensor) -> float:
    """‖g(x) − g‖ / ‖g‖ over all parameters, g the gradient of one image (B = 1), x (c·h·w,): the certificate."""
    found = gradient.network.gradients(
        {name: value.double() for name, value in gradient.theta.items()},
        x.double().view(1, *gradient.network.shape),
        gradient.labels,
    )
    difference = sum(float((found[name] - g.double()).square().sum()) for name, g in gradient.gradients.items())
    size = sum(float(g.double().square().sum()) for g in gradient.gradients.values())
    return math.sqrt(difference / size)


# ------------------------------------------------------------------------------------------------- under noise


def gradient_gram(gradient: Gradient, x: Tensor) -> Tensor:
    """JᵀJ (c·h·w, c·h·w), J = ∂(all gradients of one image)/∂x at x (c·h·w,).

    No row of the fully connected layer is formed: ∇_W ℓ = δfᵀ has

        ⟨∂_a(δfᵀ), ∂_b(δfᵀ)⟩ = ‖f‖² ∂_aδ·∂_bδ + ‖δ‖² ∂_af·∂_bf + (δ·∂_aδ)(f·∂_bf) + (δ·∂_bδ)(f·∂_af).
    """
    network = gradient.network
    theta = {name: value.double() for name, value in gradient.theta.items()}
    x = x.double().flatten()

    def passes(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *convolutions, last = network.layers(
            theta, image.view(1, *network.shape), cross_entropy_direction(gradient.labels)
        )
        shared = [(layer.delta[0] @ layer.input[0].mT).flatten() for layer in convolutions]
        return last.input[0], last.delta[0], torch.cat(shared) if shared else image.new_zeros(0)

    features, delta, _ = passes(x)
    df, dd, dg = by_columns(passes, x)
    along_f, along_d = df @ features, dd @ delta
    last = features.square().sum() * (dd @ dd.mT) + delta.square().sum() * (df @ df.mT)
    last = last + torch.outer(along_d, along_f) + torch.outer(along_f, along_d)
    return last + dd @ dd.mT + dg @ dg.mT


def whole_gradient(gradient: Gradient) -> Callable[[Tensor], Tensor]:
    """x (c·h·w,) -> all gradients of one image as one vector (p,), in the network and for the label of `gradient`."""
    network = gradient.network
    theta = {name: value.double() for name, value in gradient.theta.items()}

    def flat(image: Tensor) -> Tensor:
        found = network.gradients(theta, image.view(1, *network.shape), gradient.labels)
        return torch.cat([each.flatten() for each in found.values()])

    return flat


def most_probable(
    gradient: Gradient, sigma: float, prior: float = 1.0, x_init: Tensor | None = None, steps: int = 15
) -> Solved:
    """The image that is most probable given its gradient with noise N(0, σ²) on every entry, and N(0, prior) on pixels:

        min_x ‖g(x) − g‖²/σ² + ‖x‖²/prior,

    by Gauss–Newton with halved steps, from x_init (c·h·w,), default grey.  energy: of that sum.  ReconError unless
    σ > 0 and prior > 0.
    """
    if not (sigma > 0 and prior > 0):
        raise ReconError(f"noise and prior must be positive, not {sigma} and {prior}")
    model = whole_gradient(gradient)
    target = torch.cat([each.double().flatten() for each in gradient.gradients.values()])
    size = math.prod(gradient.network.shape)
    x = torch.zeros(size, dtype=torch.float64) if x_init is None else x_init.double().flatten()

    def energy(point: Tensor) -> Tensor:
        return (model(point) - target).square().sum() / sigma**2 + point.square().sum() / prior

    energies = [energy(x)]
    for _ in range(steps):
        value, back, *_ = vjp(model, x)
        slope = back(value - target)[0] / sigma**2 + x / prior
        curvature = gradient_gram(gradient, x) / sigma**2
        curvature.diagonal().add_(1 / prior)
        step = torch.cholesky_solve(slope[:, None], torch.linalg.cholesky(curvature))[:, 0]
        for share in (1.0, 0.5, 0.25, 0.1, 0.01):
            lower = energy(x - share * step)
            if lower < energies[-1]:
                break
        else:
            break
        x = x - share * step
        energies.append(lower)
        if energies[-2] - energies[-1] <= 1e-8 * energies[-2]:
            break
    return Solved(x, torch.stack(energies))
