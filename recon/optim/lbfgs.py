"""Limited-memory BFGS (Nocedal 1980), which solves inner problems.

Its vectors are changed in place: for 10⁵ entries and more, memory traffic is the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recon.optim.trace import note_step

ARMIJO = 1e-4
#: θ (p,) -> energy () and gradient (p,), in new memory every time
ValueAndGrad = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class LBFGSSettings:
    """
    Attributes:
        tol: done when ‖∇E‖₂ ≤ tol.
        max_iter: iterations at most.
        history: curvature pairs remembered.
        halvings: of a step, before its line search has failed.
        label: under which its energies are noted; "" for none.
    """

    tol: float = 1e-5
    max_iter: int = 500
    history: int = 10
    halvings: int = 30
    label: str = ""


@dataclass(frozen=True)
class LBFGSResult:
    """
    Attributes:
        theta (p,).
        energy, grad_norm ().
        iterations.
        scale (): ⟨s, y⟩/⟨y, y⟩ of the last pair.
    """

    theta: Tensor
    energy: Tensor
    grad_norm: Tensor
    iterations: int
    scale: Tensor


@dataclass
class Pairs:
    """Curvature pairs s = Δθ, y = Δ∇E in ring buffers (history, p), oldest first in `order`; ρ =
    1/⟨s, y⟩ of each slot; scale () of H where nothing is known.
    """

    s: Tensor
    y: Tensor
    scale: Tensor
    rho: dict[int, Tensor] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def append(self, before: Point, after: Point) -> None:
        """Add a step, forget the oldest beyond `history`; a step without positive curvature is left
        out.
        """
        free = [k for k in range(len(self.s)) if k not in self.order]
        slot = free[0] if free else self.order.pop(0)
        s, y = self.s[slot], self.y[slot]
        torch.sub(after.theta, before.theta, out=s)
        torch.sub(after.grad, before.grad, out=y)
        sy, yy = inner(s, y), inner(y, y)
        # the square of a small change is 0 in float32
        if yy > 0 and sy > 1e-10 * inner(s, s).sqrt() * yy.sqrt():
            self.rho[slot], self.scale = 1 / sy, sy / yy
            self.order.append(slot)

    def apply(self, v: Tensor) -> Tensor:
        """Two-loop recursion: H v ≈ [∇²E]⁻¹ v, a new vector (p,)."""
        q, alphas = v.clone(), {}
        for k in reversed(self.order):
            alphas[k] = self.rho[k] * inner(self.s[k], q)
            q.addcmul_(alphas[k].to(q), self.y[k], value=-1)
        q.mul_(self.scale.to(q))
        for k in self.order:
            q.addcmul_((alphas[k] - self.rho[k] * inner(self.y[k], q)).to(q), self.s[k])
        return q


@dataclass(frozen=True)
class Point:
    """θ (p,) with its energy () and gradient (p,)."""

    theta: Tensor
    energy: Tensor
    grad: Tensor


def lbfgs(
    value_and_grad: ValueAndGrad,
    theta: Tensor,
    settings: LBFGSSettings = LBFGSSettings(),
    scale: Tensor | None = None,
) -> LBFGSResult:
    """Minimise a function from theta (p,), which is left as it is. Where a line search (Armijo
    backtracking) finds nothing, the pairs are forgotten; where it finds nothing along the gradient
    either, the point counts as the minimum.

    Args:
        scale (): of the first step, −scale ∇E, as an earlier, nearby problem had it; by default
            that step has length 1.
    """
    at = Point(theta, *value_and_grad(theta))
    norm = at.grad.norm()
    scale = (1 / norm.clamp_min(1e-12) if scale is None else scale).double()
    s, y = (theta.new_zeros(settings.history, len(theta)) for _ in range(2))
    pairs = Pairs(s, y, scale)
    iteration = 0
    while iteration < settings.max_iter and norm > settings.tol:
        iteration += 1
        direction = pairs.apply(at.grad).neg_()
        slope = inner(at.grad, direction)
        if not slope < 0:
            direction, slope = -at.grad, -norm.double().square()
        new = _backtrack(value_and_grad, at, direction, slope, settings.halvings)
        if new is not None:
            pairs.append(at, new)
            at, norm = new, new.grad.norm()
        elif pairs.order:
            pairs.order.clear()
        else:  # no descent to be had at this precision
            break
        if settings.label:
            note_step(settings.label, iteration, at.energy)
    return LBFGSResult(at.theta, at.energy, norm, iteration, pairs.scale)


def _backtrack(
    function: ValueAndGrad, at: Point, direction: Tensor, slope: Tensor, halvings: int
) -> Point | None:
    """The first of η = 1, ½, ¼, … that lowers the energy enough; None without one."""
    least = at.energy.double() + 10 * torch.finfo(at.theta.dtype).eps * at.energy.double().abs()
    step = torch.ones_like(at.energy)
    for _ in range(halvings):
        theta = torch.addcmul(at.theta, step, direction)
        energy, grad = function(theta)
        if energy <= least + ARMIJO * step * slope:  # never where it is NaN
            return Point(theta, energy, grad)
        step = step / 2
    return None


def inner(a: Tensor, b: Tensor) -> Tensor:
    """⟨a, b⟩ of vectors, in float64 from here on."""
    return a.dot(b).double()
