"""Limited-memory BFGS for one large problem, in place: for vectors of 10⁵ entries and more, memory traffic is the cost.

The same method as `recon.optim.lbfgs`, for a single row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

ARMIJO = 1e-4


@dataclass(frozen=True)
class InPlaceSettings:
    """tol: done when ‖∇E‖₂ ≤ tol · max_iter: iterations at most · history: curvature pairs remembered · trials: of a
    line search, before the point counts as stuck."""

    tol: float = 1e-5
    max_iter: int = 500
    history: int = 10
    trials: int = 30


@dataclass
class Pairs:
    """Curvature pairs s = Δθ, y = Δ∇E as rows of ring buffers, oldest first in `order`; ρ = 1/⟨s, y⟩."""

    s: Tensor
    y: Tensor
    rho: list[float]
    order: list[int] = field(default_factory=list)
    scale: float = 1.0

    @staticmethod
    def like(theta: Tensor, history: int) -> Pairs:
        """Empty, for vectors like theta (p,)."""
        return Pairs(theta.new_zeros(history, len(theta)), theta.new_zeros(history, len(theta)), [0.0] * history)

    def remember(self, theta: Tensor, grad: Tensor, before: Tensor, grad_before: Tensor) -> None:
        """Add θ − θ_before with its change of gradient; forgets the oldest, and skips a pair without curvature."""
        free = [k for k in range(len(self.rho)) if k not in self.order]
        slot = free[0] if free else self.order[0]
        s, y = self.s[slot], self.y[slot]
        torch.sub(theta, before, out=s)
        torch.sub(grad, grad_before, out=y)
        sy, yy = float(s.dot(y)), float(y.dot(y))
        if slot in self.order:  # overwritten, used or not
            self.order.remove(slot)
        if yy > 0 and sy > 1e-10 * math.sqrt(float(s.dot(s)) * yy):  # the square of a small change is 0 in float32
            self.order.append(slot)
            self.rho[slot], self.scale = 1 / sy, sy / yy

    def apply(self, v: Tensor) -> Tensor:
        """Two-loop recursion (Nocedal 1980): H v ≈ [∇²E]⁻¹ v, a new vector (p,)."""
        q, alphas = v.clone(), {}
        for k in reversed(self.order):
            alphas[k] = self.rho[k] * float(self.s[k].dot(q))
            q.add_(self.y[k], alpha=-alphas[k])
        q.mul_(self.scale)
        for k in self.order:
            q.add_(self.s[k], alpha=alphas[k] - self.rho[k] * float(self.y[k].dot(q)))
        return q


@dataclass(frozen=True)
class InPlaceResult:
    """theta: (p,) · energy, grad_norm: at theta · iterations · pairs: for `Pairs.apply`."""

    theta: Tensor
    energy: float
    grad_norm: float
    iterations: int
    pairs: Pairs


def lbfgs_in_place(
    value_and_grad: Callable[[Tensor], tuple[Tensor, Tensor]],
    theta: Tensor,
    settings: InPlaceSettings,
    scale: float | None = None,
) -> InPlaceResult:
    """Minimise E over one vector θ (p,) from `theta`, which is left as it is.

    value_and_grad: (p,) -> (scalar, (p,)), in new memory every time · scale: of the first step, −scale ∇E, as the pairs
    of an earlier, nearby problem had it; by default that step has length 1.  Where a line search finds nothing, the
    pairs are forgotten; where it finds nothing along the gradient either, the point counts as the minimum.
    """
    theta = theta.clone()
    value, grad = value_and_grad(theta)
    pairs = Pairs.like(theta, settings.history)
    pairs.scale = 1 / max(float(grad.norm()), 1e-12) if scale is None else scale
    energy, norm = float(value), float(grad.norm())
    iteration = 0
    while iteration < settings.max_iter and norm > settings.tol:
        direction = pairs.apply(grad).neg_()
        slope = float(grad.dot(direction))
        if not slope < 0:
            direction, slope = grad.neg(), -(norm**2)
        found = _line_search(value_and_grad, theta, energy, direction, slope, settings.trials)
        iteration += 1
        if found is None and not pairs.order:
            break  # no descent to be had at this precision
        if found is None:
            pairs.order.clear()  # forget, and begin again with the gradient
            continue
        new_theta, energy, new_grad = found
        pairs.remember(new_theta, new_grad, theta, grad)
        theta, grad = new_theta, new_grad
        norm = float(grad.norm())
    return InPlaceResult(theta, energy, norm, iteration, pairs)


def _line_search(
    value_and_grad: Callable[[Tensor], tuple[Tensor, Tensor]],
    theta: Tensor,
    energy: float,
    direction: Tensor,
    slope: float,
    trials: int,
) -> tuple[Tensor, float, Tensor] | None:
    """The first of 1, ½, ¼, … of the direction that lowers E enough (Armijo); None if none of `trials` does."""
    eps = 10 * torch.finfo(theta.dtype).eps * abs(energy)
    step = 1.0
    for _ in range(trials):
        new = torch.add(theta, direction, alpha=step)
        value, grad = value_and_grad(new)
        if float(value) <= energy + ARMIJO * step * slope + eps:  # never where it is NaN
            return new, float(value), grad
        step /= 2
    return None
