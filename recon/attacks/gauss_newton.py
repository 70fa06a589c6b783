"""Gauss–Newton and Levenberg–Marquardt on a system h(x) = h*, whatever made it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import jvp, vmap

CHUNK = 128  # columns or rows of a Jacobian at a time


class System(Protocol):
    """h(x) = h* for x (unknowns,). start: of what nothing else is known · linear: its Jacobian J at
    one point.
    """

    @property
    def start(self) -> Tensor: ...

    @property
    def target(self) -> Tensor: ...

    def __call__(self, x: Tensor) -> Tensor: ...

    def linear(self, x: Tensor) -> Dense | Normal: ...


@dataclass(frozen=True)
class Dense:
    """J itself, (rows, unknowns)."""

    jacobian: Tensor

    def step(self, residual: Tensor, damping: float, free: Tensor | None = None) -> Tensor:
        """(JᵀJ + μI)⁻¹ Jᵀ r by the smaller of JᵀJ and JJᵀ, μ being `damping` times the mean
        diagonal;

        Args:
            free: entries of x that may move.
        """
        if self._by_columns:
            return Normal(self._gram, lambda r: self.jacobian.mT @ r).step(residual, damping, free)
        if free is not None:
            return Dense(self.jacobian * free).step(residual, damping)
        return self.jacobian.mT @ damped_solution(self._gram.clone(), residual, damping)

    @property
    def _by_columns(self) -> bool:
        return self.jacobian.shape[0] >= self.jacobian.shape[1]

    @cached_property
    def _gram(self) -> Tensor:
        """JᵀJ or JJᵀ, formed once: a point may see several steps, with other dampings."""
        return (
            self.jacobian.mT @ self.jacobian
            if self._by_columns
            else self.jacobian @ self.jacobian.mT
        )


@dataclass(frozen=True)
class Normal:
    """JᵀJ (unknowns, unknowns), and r -> Jᵀ r: where J has too many rows to be formed."""

    gram: Tensor
    pull: Callable[[Tensor], Tensor]

    def step(self, residual: Tensor, damping: float, free: Tensor | None = None) -> Tensor:
        """As `Dense.step`, by JᵀJ."""
        right, gram = self.pull(residual), self.gram.clone()
        if free is not None:
            right, gram = right * free, gram * free * free[:, None]
        return damped_solution(gram, right, damping)


def damped_solution(gram: Tensor, right: Tensor, damping: float) -> Tensor:
    """(G + μI)⁻¹ b for G (k, k), which is overwritten, and b (k,); by Cholesky, by least squares
    where that fails.
    """
    gram.diagonal().add_(damping * gram.diagonal().mean())
    factor, failed = torch.linalg.cholesky_ex(gram)
    column = right.unsqueeze(-1)
    solved = (
        torch.linalg.lstsq(gram, column).solution
        if bool(failed)
        else torch.cholesky_solve(column, factor)
    )
    return solved.squeeze(-1)


@dataclass(frozen=True)
class Solved:
    """
    Attributes:
        x (unknowns,).
        energy: ‖h(x) − h*‖² after every iteration, the start's first.
    """

    x: Tensor
    energy: Tensor


def gauss_newton(
    system: System,
    x_init: Tensor | None = None,
    steps: int = 30,
    tol: float = 1e-24,
    damping: float = 1e-3,
    box: tuple[float, float] | None = None,
    gain: float = 0.0,
) -> Solved:
    """Levenberg–Marquardt: x ← x − (JᵀJ + μI)⁻¹ Jᵀ (h(x) − h*), from x_init (unknowns,), default
    `system.start`. μ is `damping` times the mean diagonal, a tenth after a step that lowered the
    energy, ten times as much after one that did not. It stops at ‖h(x) − h*‖² ≤ tol, after `steps`
    linear systems, or once a step lowers the energy by less than the share `gain` of it; it never
    sees the image.

    Args:
        box: bounds that every iterate keeps; entries at a bound that a step would cross stay there,
            and the others do their part.
    """
    target, x = system.target, (system.start if x_init is None else x_init.double().flatten())
    residual = system(x) - target
    energies = [residual.square().sum()]
    linear = None
    for _ in range(steps):
        if energies[-1] <= tol:
            break
        linear = system.linear(x) if linear is None else linear
        candidate = x - linear.step(residual, damping)
        if box is not None:
            held = ((x <= box[0]) & (candidate < box[0])) | ((x >= box[1]) & (candidate > box[1]))
            if held.any():
                candidate = x - linear.step(residual, damping, ~held)
            candidate = candidate.clamp(*box)
        remaining = system(candidate) - target
        energy = remaining.square().sum()
        if energy < energies[-1]:
            x, residual, damping, linear = candidate, remaining, max(damping / 10, 1e-14), None
            energies.append(energy)
            if energies[-2] - energy <= gain * energies[-2]:
                break
        elif damping > 1e6:
            break
        else:
            damping *= 10
    return Solved(x, torch.stack(energies))


def row_space(jacobian: Tensor) -> Tensor:
    """Orthonormal columns (unknowns, rank), of what a Jacobian (rows, unknowns) sees. By
    eigenvalues of the smaller Gram matrix: singular values above √(ε · Σσ²), about 1e-8 of the
    largest, count.
    """
    wide = jacobian.shape[0] < jacobian.shape[1]
    gram = jacobian @ jacobian.mT if wide else jacobian.mT @ jacobian
    squares, vectors = torch.linalg.eigh(gram)
    counted = squares > torch.finfo(gram.dtype).eps * squares.sum()
    basis = vectors[:, counted]
    return jacobian.mT @ (basis / squares[counted].sqrt()) if wide else basis


def jacobian_columns(function: Callable[[Tensor], Any], x: Tensor) -> Any:
    """Derivatives of all that `function` returns by each entry of x (k,), tensors with a leading
    dimension k.
    """
    unit = torch.eye(len(x)).to(x)
    with warnings.catch_warnings():
        # of torch's own, when forward mode is first used
        warnings.simplefilter("ignore", FutureWarning)
        return vmap(lambda column: jvp(function, (x,), (column,))[1], chunk_size=CHUNK)(unit)
