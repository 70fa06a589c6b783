"""Descent schemes that treat every row of a batch as a problem of its own.

`HeavyBall` is gradient descent with momentum whose step finds its own length: the outer iteration of eq. (7) and, on
the logarithm of the loss, the descent to the KKT regime.  `lbfgs` solves inner problems and hands on the curvature
pairs that it collected: the quasi-Newton inverse Hessian of eq. (7).  `SGD` and `Adam` take every step: DecoReco's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

State = dict[str, Tensor]


def rows(scalar: Tensor, like: Tensor) -> Tensor:
    """Shape (S,) -> (S, 1, …, 1), to scale the rows of `like`."""
    return scalar.reshape(scalar.shape + (1,) * (like.dim() - scalar.dim()))


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each row: (S, ...) x (S, ...) -> (S,)."""
    return (a * b).flatten(1).sum(-1)


@dataclass(frozen=True)
class HeavyBall:
    """Gradient descent with momentum, an adaptive step, and a restart after every rejected step.

    v ← μ v + ∇E(x),  x ← x − η v.  A step that lowered E makes η grow by `grow`; one that raised it is taken back,
    η shrinks by `shrink` and v starts again from zero (cf. O'Donoghue & Candès 2015).  Rows are independent.

    The energy decides, nothing else: no truth enters.  A row whose energy is ≤ `tol` stops where it is.  `box`:
    bounds to which every proposal is clipped (projected descent).  max_relative_step: η shrinks so that
    ‖η v‖ ≤ max_relative_step · max(‖x‖, 1).
    """

    step_size: float = 1.0
    momentum: float = 0.9
    grow: float = 1.1
    shrink: float = 0.5
    tol: float = 0.0
    box: tuple[float, float] | None = None
    max_relative_step: float = math.inf

    def init(self, x: Tensor) -> State:
        """State before the first evaluation; `x` (S, ...) is the first proposal."""
        inf = torch.full(x.shape[:1], torch.inf, dtype=x.dtype, device=x.device)
        zero = torch.zeros_like(x)
        return {
            "x": x.clone(),
            "accepted_x": x.clone(),
            "accepted_grad": zero,
            "velocity": zero.clone(),
            "accepted_energy": inf,
            "step_size": torch.full_like(inf, self.step_size),
        }

    def step(self, state: State, energy: Tensor, grad: Tensor) -> State:
        """Accept or reject the proposal `state["x"]`, given its energy (S,) and gradient, and make the next one."""
        better = energy < state["accepted_energy"]  # a NaN energy is not better: it is rejected like any bad step
        pick = rows(better, grad)
        accepted_x = torch.where(pick, state["x"], state["accepted_x"])
        accepted_grad = torch.where(pick, grad, state["accepted_grad"])
        accepted_energy = torch.where(better, energy, state["accepted_energy"])
        first = torch.isinf(state["accepted_energy"])
        step_size = state["step_size"] * torch.where(first, 1.0, torch.where(better, self.grow, self.shrink))
        velocity = self.momentum * torch.where(pick, state["velocity"], 0.0) + accepted_grad
        if self.max_relative_step < math.inf:
            length, size = step_size * dot(velocity, velocity).sqrt(), dot(accepted_x, accepted_x).sqrt().clamp_min(1.0)
            tiny = torch.finfo(length.dtype).tiny
            step_size = step_size * (self.max_relative_step * size / length.clamp_min(tiny)).clamp_max(1.0)
        active = rows(accepted_energy > self.tol, grad)
        proposal = accepted_x - torch.where(active, rows(step_size, velocity) * velocity, 0.0)
        return {
            "x": proposal if self.box is None else proposal.clamp(*self.box),
            "accepted_x": accepted_x,
            "accepted_grad": accepted_grad,
            "velocity": velocity,
            "accepted_energy": accepted_energy,
            "step_size": step_size,
        }


@dataclass(frozen=True)
class SGD:
    """v ← μ v + g, p ← p − η v; momentum 0 is plain gradient descent.  State in, state out."""

    step_size: float
    momentum: float = 0.0

    def init(self, p: Tensor) -> State:
        """State before the first update."""
        return {"velocity": torch.zeros_like(p)}

    def update(self, state: State, p: Tensor, grad: Tensor, k: int, factor: float = 1.0) -> tuple[Tensor, State]:
        """Update k = 1, 2, … with step size η · factor."""
        velocity = self.momentum * state["velocity"] + grad
        return p - self.step_size * factor * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba (2015), each entry with its own scale; same interface as `SGD`."""

    step_size: float
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-12

    def init(self, p: Tensor) -> State:
        """State before the first update."""
        return {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}

    def update(self, state: State, p: Tensor, grad: Tensor, k: int, factor: float = 1.0) -> tuple[Tensor, State]:
        """Update k = 1, 2, … with step size η · factor."""
        b1, b2 = self.betas
        mean = torch.lerp(grad, state["mean"], b1)
        square = torch.lerp(grad.square(), state["square"], b2)
        step = mean / (1 - b1**k) / ((square / (1 - b2**k)).sqrt() + self.eps)
        return p - self.step_size * factor * step, {"mean": mean, "square": square}


def cosine(k: int, steps: int, final: float = 0.05) -> float:
    """Schedule factor: from 1 down to `final` over `steps`, along half a cosine."""
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(k / steps, 1.0)))


@dataclass(frozen=True)
class CurvaturePairs:
    """What L-BFGS remembers, oldest first: s = Δθ and y = Δ∇E, each (S, p), and ρ = 1/⟨s, y⟩ (S,), 0 if unused."""

    pairs: tuple[tuple[Tensor, Tensor, Tensor], ...] = ()

    def append(self, s: Tensor, y: Tensor, history: int) -> CurvaturePairs:
        """Add a pair, forget beyond `history`; a row without positive curvature gets ρ = 0."""
        curvature = dot(s, y)
        usable = curvature > 1e-10 * s.norm(dim=-1) * y.norm(dim=-1)
        rho = torch.where(usable, 1 / curvature, torch.zeros_like(curvature))
        return CurvaturePairs((*self.pairs, (s, y, rho))[-history:])

    def apply(self, v: Tensor) -> Tensor:
        """Two-loop recursion (Nocedal 1980): the quasi-Newton product H v ≈ [∇²E]⁻¹ v; v (S, p)."""
        alphas = []
        q = v
        for s, y, rho in reversed(self.pairs):
            alpha = rho * dot(s, q)
            q = q - alpha[:, None] * y
            alphas.append(alpha)
        scale = torch.ones_like(v[:, 0])
        for s, y, rho in self.pairs:  # the newest usable pair sets the scale
            scale = torch.where(rho > 0, dot(s, y) / dot(y, y).clamp_min(1e-30), scale)
        q = scale[:, None] * q
        for (s, y, rho), alpha in zip(self.pairs, reversed(alphas), strict=True):
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
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    history: int = 10,
    halvings: int = 30,
    pairs: CurvaturePairs | None = None,
    callback: Callable[[int, Tensor, Tensor], None] | None = None,
) -> LBFGSResult:
    """Minimise S functions at once by limited-memory BFGS with Armijo backtracking, each row with its own step.

    value_and_grad: (S, p) -> ((S,), (S, p)) · tol: a row is done when ‖∇E‖₂ ≤ tol, and stays · pairs: curvature from
    an earlier, nearby problem to begin with · halvings: of a step, before a row counts
    as stuck.  Rows do not influence each other but through `max_iter`.
    """
    pairs = pairs or CurvaturePairs()
    energy, grad = value_and_grad(theta)
    eps = 10 * torch.finfo(theta.dtype).eps
    stuck = torch.zeros_like(energy, dtype=torch.bool)
    iteration = 0
    for iteration in range(1, max_iter + 1):
        active = (grad.norm(dim=-1) > tol) & ~stuck
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
        for _ in range(halvings):
            new_theta = theta + step[:, None] * direction
            new_energy, new_grad = value_and_grad(new_theta)
            accept = (new_energy <= energy + 1e-4 * step * slope + eps * energy.abs()) | ~active
            if accept.all():
                break
            step = torch.where(accept, step, step / 2)
        else:
            stuck |= ~accept  # no descent to be had at this precision
            new_theta = torch.where(accept[:, None], new_theta, theta)
            new_energy = torch.where(accept, new_energy, energy)
            new_grad = torch.where(accept[:, None], new_grad, grad)
        pairs = pairs.append(new_theta - theta, new_grad - grad, history)
        theta, energy, grad = new_theta, new_energy, new_grad
        if callback is not None:
            callback(iteration, energy, grad.norm(dim=-1))
    return LBFGSResult(theta, energy, grad.norm(dim=-1), iteration, pairs)
