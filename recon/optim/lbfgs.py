"""Limited-memory BFGS: solves inner problems, and hands on the curvature pairs that it collected on the way.

Those pairs are the quasi-Newton inverse Hessian of eq. (7).  Every row of a batch is a problem of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.optim.tree import dot


@dataclass(frozen=True)
class LBFGSSettings:
    """tol: a row is done when ‖∇E‖₂ ≤ tol, and stays · max_iter: iterations at most · history: curvature pairs
    remembered · halvings: of a step, before a row counts as stuck."""

    tol: float = 1e-6
    max_iter: int = 500
    history: int = 10
    halvings: int = 30


@dataclass(frozen=True)
class CurvaturePairs:
    """What L-BFGS remembers, oldest first: s = Δθ and y = Δ∇E, each (S, p), ρ = 1/⟨s, y⟩ (S,), 0 if unused, and the
    scale ⟨s, y⟩/⟨y, y⟩ (S,)."""

    pairs: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...] = ()

    def append(self, s: Tensor, y: Tensor, history: int) -> CurvaturePairs:
        """Add a pair, forget beyond `history`; a row without positive curvature gets ρ = 0."""
        curvature = dot(s, y)
        usable = curvature > 1e-10 * s.norm(dim=-1) * y.norm(dim=-1)
        rho = torch.where(usable, 1 / curvature, torch.zeros_like(curvature))
        scale = curvature / dot(y, y).clamp_min(1e-30)
        return CurvaturePairs((*self.pairs, (s, y, rho, scale))[-history:])

    def apply(self, v: Tensor) -> Tensor:
        """Two-loop recursion (Nocedal 1980): the quasi-Newton product H v ≈ [∇²E]⁻¹ v; v (S, p)."""
        alphas = []
        q = v
        for s, y, rho, _ in reversed(self.pairs):
            alpha = rho * dot(s, q)
            q = q - alpha[:, None] * y
            alphas.append(alpha)
        scale = torch.ones_like(v[:, 0])
        for _, _, rho, own in self.pairs:  # the newest usable pair sets the scale
            scale = torch.where(rho > 0, own, scale)
        q = scale[:, None] * q
        for (s, y, rho, _), alpha in zip(self.pairs, reversed(alphas), strict=True):
            q = q + (alpha - rho * dot(y, q))[:, None] * s
        return q


@dataclass(frozen=True)
class LBFGSResult:
    """theta: (S, p) · energy, grad_norm: (S,) · iterations: int · pairs: for `CurvaturePairs.apply`."""

    theta: Tensor
    energy: Tensor
    grad_norm: Tensor
    iterations: int
    pairs: CurvaturePairs


def lbfgs(
    value_and_grad: Callable[[Tensor], tuple[Tensor, Tensor]],
    theta: Tensor,
    settings: LBFGSSettings = LBFGSSettings(),
    pairs: CurvaturePairs | None = None,
    callback: Callable[[int, Tensor, Tensor], None] | None = None,
) -> LBFGSResult:
    """Minimise S functions at once by limited-memory BFGS with Armijo backtracking, each row with its own step.

    value_and_grad: (S, p) -> ((S,), (S, p)) · pairs: curvature from an earlier, nearby problem to begin with ·
    callback(iteration, energy, ‖∇E‖₂) after each.  Rows do not influence each other but through `max_iter`.
    """
    pairs = pairs or CurvaturePairs()
    energy, grad = value_and_grad(theta)
    stuck = torch.zeros_like(energy, dtype=torch.bool)
    iteration = 0
    for iteration in range(1, settings.max_iter + 1):
        active = (grad.norm(dim=-1) > settings.tol) & ~stuck
        if not active.any():
            iteration -= 1
            break
        direction = -pairs.apply(grad)
        slope = dot(grad, direction)
        uphill = ~(slope < 0)
        direction = torch.where(uphill[:, None], -grad, direction)
        slope = torch.where(uphill, -dot(grad, grad), slope)
        step = torch.ones_like(energy)
        if not pairs.pairs:
            step = step / grad.norm(dim=-1).clamp_min(1e-12)
        step = step * active
        at = _Point(theta, energy, grad)
        new, failed = _backtrack(value_and_grad, at, direction, slope, step, active, settings.halvings)
        stuck |= failed  # no descent to be had at this precision
        pairs = pairs.append(new.theta - theta, new.grad - grad, settings.history)
        theta, energy, grad = new.theta, new.energy, new.grad
        if callback is not None:
            callback(iteration, energy, grad.norm(dim=-1))
    return LBFGSResult(theta, energy, grad.norm(dim=-1), iteration, pairs)


@dataclass(frozen=True)
class _Point:
    """θ (S, p) with its energy (S,) and gradient (S, p)."""

    theta: Tensor
    energy: Tensor
    grad: Tensor


def _backtrack(
    value_and_grad: Callable[[Tensor], tuple[Tensor, Tensor]],
    at: _Point,
    direction: Tensor,
    slope: Tensor,
    step: Tensor,
    active: Tensor,
    halvings: int,
) -> tuple[_Point, Tensor]:
    """The first of η, η/2, … that lowers the energy enough (Armijo), for each row; and the rows (S,) without one."""
    eps = 10 * torch.finfo(at.theta.dtype).eps
    for _ in range(halvings):
        theta = at.theta + step[:, None] * direction
        energy, grad = value_and_grad(theta)
        accept = (energy <= at.energy + 1e-4 * step * slope + eps * at.energy.abs()) | ~active
        if accept.all():
            return _Point(theta, energy, grad), ~accept
        step = torch.where(accept, step, step / 2)
    theta, grad = (torch.where(accept[:, None], a, b) for a, b in ((theta, at.theta), (grad, at.grad)))
    return _Point(theta, torch.where(accept, energy, at.energy), grad), ~accept
