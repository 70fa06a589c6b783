"""Limited-memory BFGS (Nocedal 1980), which solves inner problems.  Every row of a batch is a problem of its own.

Its vectors are changed in place: for 10⁵ entries and more, memory traffic is the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

ARMIJO = 1e-4
#: θ (S, p) -> energies (S,) and gradients (S, p), in new memory every time
ValueAndGrad = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class LBFGSSettings:
    """tol: a row is done when ‖∇E‖₂ ≤ tol, and stays · max_iter: iterations at most · history: curvature pairs
    remembered · halvings: of a step, before its line search has failed."""

    tol: float = 1e-5
    max_iter: int = 500
    history: int = 10
    halvings: int = 30


@dataclass(frozen=True)
class LBFGSResult:
    """theta: (S, p) · energy, grad_norm: (S,) · iterations: int · scale (S,): ⟨s, y⟩/⟨y, y⟩ of each row's last pair."""

    theta: Tensor
    energy: Tensor
    grad_norm: Tensor
    iterations: int
    scale: Tensor


@dataclass
class Pairs:
    """Curvature pairs s = Δθ, y = Δ∇E of S rows in ring buffers (history, S, p), oldest first in `order`; ρ = 1/⟨s, y⟩
    (history, S), 0 where a row has none; scale (S,) of H where nothing is known."""

    s: Tensor
    y: Tensor
    rho: Tensor
    scale: Tensor
    order: list[int] = field(default_factory=list)

    @staticmethod
    def like(theta: Tensor, history: int, scale: Tensor) -> Pairs:
        """Empty, for vectors like theta (S, p)."""
        s, y = (theta.new_zeros(history, *theta.shape) for _ in range(2))
        return Pairs(s, y, theta.new_zeros(history, len(theta), dtype=torch.float64), scale.double())

    @property
    def empty(self) -> Tensor:
        """Which rows have no pair, (S,)."""
        return ~self.rho.any(0)

    def append(self, before: Point, after: Point) -> None:
        """Add a step, forget the oldest beyond `history`; a row whose step has no positive curvature skips it."""
        free = [k for k in range(len(self.rho)) if k not in self.order]
        slot = free[0] if free else self.order.pop(0)
        s, y = self.s[slot], self.y[slot]
        torch.sub(after.theta, before.theta, out=s)
        torch.sub(after.grad, before.grad, out=y)
        sy, yy = inner(s, y), inner(y, y)  # the square of a small change is 0 in float32
        usable = (yy > 0) & (sy > 1e-10 * inner(s, s).sqrt() * yy.sqrt())
        self.rho[slot] = torch.where(usable, 1 / sy, 0.0)
        self.scale = torch.where(usable, sy / yy, self.scale)
        if usable.any():
            self.order.append(slot)

    def forget(self, rows: Tensor) -> None:
        """All pairs of these rows (S,)."""
        self.rho[:, rows] = 0
        if self.empty.all():
            self.order.clear()

    def apply(self, v: Tensor) -> Tensor:
        """Two-loop recursion: H v ≈ [∇²E]⁻¹ v, new vectors (S, p)."""
        q, alphas = v.clone(), {}
        for k in reversed(self.order):
            alphas[k] = self.rho[k] * inner(self.s[k], q)
            q.addcmul_(alphas[k].to(q)[:, None], self.y[k], value=-1)
        q.mul_(self.scale.to(q)[:, None])
        for k in self.order:
            q.addcmul_((alphas[k] - self.rho[k] * inner(self.y[k], q)).to(q)[:, None], self.s[k])
        return q


@dataclass(frozen=True)
class Point:
    """θ (S, p) with its energy (S,) and gradient (S, p)."""

    theta: Tensor
    energy: Tensor
    grad: Tensor


def lbfgs(
    value_and_grad: ValueAndGrad, theta: Tensor, settings: LBFGSSettings = LBFGSSettings(), scale: Tensor | None = None
) -> LBFGSResult:
    """Minimise S functions at once from theta (S, p), which is left as it is; each row with its own step.

    scale (S,): of the first step, −scale ∇E, as an earlier, nearby problem had it; by default that step has length 1.
    Where a line search (Armijo backtracking) finds nothing, the row's pairs are forgotten; where it finds nothing along
    the gradient either, the point counts as the minimum.  Rows do not influence each other but through `max_iter`.
    """
    at = Point(theta, *value_and_grad(theta))
    norm = at.grad.norm(dim=-1)
    pairs = Pairs.like(theta, settings.history, 1 / norm.clamp_min(1e-12) if scale is None else scale)
    stuck = torch.zeros_like(norm, dtype=torch.bool)
    iteration = 0
    while iteration < settings.max_iter and (active := (norm > settings.tol) & ~stuck).any():
        iteration += 1
        direction = pairs.apply(at.grad).neg_()
        slope = inner(at.grad, direction)
        uphill = ~(slope < 0)
        if uphill.any():
            direction = torch.where(uphill[:, None], -at.grad, direction)
            slope = torch.where(uphill, -norm.double().square(), slope)
        new, failed = _backtrack(value_and_grad, at, direction, slope, active, settings.halvings)
        if failed.any():
            stuck |= failed & pairs.empty  # no descent to be had at this precision
            pairs.forget(failed)
        pairs.append(at, new)
        at, norm = new, new.grad.norm(dim=-1)
    return LBFGSResult(at.theta, at.energy, norm, iteration, pairs.scale)


def _backtrack(
    value_and_grad: ValueAndGrad, at: Point, direction: Tensor, slope: Tensor, active: Tensor, halvings: int
) -> tuple[Point, Tensor]:
    """The first of η = 1, ½, ¼, … that lowers the energy enough, for each active row; and the rows (S,) without one."""
    least = at.energy.double() + 10 * torch.finfo(at.theta.dtype).eps * at.energy.double().abs()
    step = active.to(at.theta.dtype)
    for _ in range(halvings):
        theta = torch.addcmul(at.theta, step[:, None], direction)
        energy, grad = value_and_grad(theta)
        accept = (energy <= least + ARMIJO * step * slope) | ~active  # never where it is NaN
        if accept.all():
            return Point(theta, energy, grad), ~accept
        step = torch.where(accept, step, step / 2)
    theta, grad = (torch.where(accept[:, None], a, b) for a, b in ((theta, at.theta), (grad, at.grad)))
    return Point(theta, torch.where(accept, energy, at.energy), grad), ~accept


def inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a_i, b_i⟩ (S,) of rows (S, p), in float64 from here on, without a product of their size."""
    return (a[0].dot(b[0])[None] if len(a) == 1 else (a[:, None] @ b[..., None])[:, 0, 0]).double()


def one_row(value_and_grad: ValueAndGrad) -> ValueAndGrad:
    """A function of one vector, (p,) -> (scalar, (p,)), as one of a single row."""

    def of_rows(theta: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = value_and_grad(theta[0])
        return value[None], grad[None]

    return of_rows
