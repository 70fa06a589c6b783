"""The bilevel formulation (2) and its hypergradient, eq. (7) of Runkel et al. (2024).

    min_x l(θ*, θ(x))   s.t.   θ(x) = argmin_θ E(x, y; θ),     l = ‖θ* − θ‖²

By the implicit function theorem dl/dx = −∂_x ⟨∇_θ E(x, y; θ), p⟩ at θ = θ(x) with p = [∇²_θ E]⁻¹ ∇_θ l (Lorraine et
al. 2020).  How p is had is a value passed in, such as `Woodbury`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.optim.descent import HeavyBall
from recon.optim.tree import State, keep
from recon.released import Weights
from recon.training.inner_problem import InnerSolution, Objective, solve_affine, with_ones


def outer_energy(theta_star: Tensor, theta: Tensor) -> Tensor:
    """l(θ*, θ) = ‖θ* − θ‖², summed over parameters; (S, p) -> (S,)."""
    return (theta - theta_star).square().sum(-1)


# ------------------------------------------------------------------------------------- inverse Hessians


@dataclass(frozen=True)
class InverseProduct:
    """p ≈ [∇²_θ E]⁻¹ v, (S, p), with the honest relative residual ‖∇²E p − v‖/‖v‖ (S,) and iterations spent."""

    p: Tensor
    residual: Tensor
    iterations: int


class InverseHessian(Protocol):
    """A way to apply [∇²_θ E(x, y; θ(x))]⁻¹ to v (S, p)."""

    def __call__(self, objective: Objective, x: Tensor, solution: InnerSolution, v: Tensor) -> InverseProduct: ...


def _residual(objective: Objective, x: Tensor, theta: Tensor, p: Tensor, v: Tensor) -> Tensor:
    return (objective.hvp(theta, x, p) - v).norm(dim=-1) / v.norm(dim=-1).clamp_min(torch.finfo(v.dtype).tiny)


def _woodbury(jacobian: Tensor, curvature: Tensor, weight_decay: float, v: Tensor) -> Tensor:
    """(JᵀDJ/n + wd·I)⁻¹ v = (v − Aᵀ(n·wd·I + AAᵀ)⁻¹ A v) / wd with A = D^½ J: n × n systems instead of p × p.

    J (S, n, p), D = diag(curvature) (S, n), v (S, p).  The small system is formed and solved in float64: n·wd is often
    below the float32 rounding of AAᵀ.
    """
    n = jacobian.shape[-2]
    scaled = (curvature.sqrt().unsqueeze(-1) * jacobian).double()
    system = scaled @ scaled.mT + n * weight_decay * torch.eye(n, dtype=torch.float64, device=v.device)
    inner = torch.cholesky_solve(scaled @ v.double().unsqueeze(-1), torch.linalg.cholesky(system))
    return ((v.double() - (scaled.mT @ inner).squeeze(-1)) / weight_decay).to(v.dtype)


@dataclass(frozen=True)
class Woodbury:
    """Exact for the affine net: ∇²E = X̄ᵀDX̄/n + wd·I with D = diag σ'(z), inverted by Woodbury's formula."""

    def __call__(self, objective: Objective, x: Tensor, solution: InnerSolution, v: Tensor) -> InverseProduct:
        if objective.network.depth != 1:
            raise ReconError("Woodbury's formula is exact for the affine network only: choose another inverse Hessian")
        s = torch.sigmoid(objective.logits(solution.theta, x))
        p = _woodbury(with_ones(x), s * (1 - s), objective.weight_decay, v)
        return InverseProduct(p, _residual(objective, x, solution.theta, p, v), 1)


# --------------------------------------------------------------------------------------- hypergradients


def hypergradient(
    objective: Objective, x: Tensor, solution: InnerSolution, v: Tensor, inverse_hessian: InverseHessian
) -> tuple[Tensor, InverseProduct]:
    """dl/dx = −∂_x ⟨∇_θ E(x, y; θ), p⟩, p = [∇²_θ E]⁻¹ v, v = ∇_θ l (S, p); returns ((S, n, d), the product).

    Note the minus sign, which eq. (7) leaves to the reader.
    """
    product = inverse_hessian(objective, x, solution, v)
    x = x.detach().requires_grad_()
    theta = solution.theta.detach().requires_grad_()
    with torch.enable_grad():
        coupling = (objective.grad(theta, x, create_graph=True) * product.p).sum()
    return -torch.autograd.grad(coupling, x)[0], product


# ------------------------------------------------------------------------------------------- the attack


class InnerSolver(Protocol):
    """θ(x) by some method, with what it wants to carry from one outer iteration to the next."""

    def init(self, objective: Objective, x: Tensor) -> State: ...

    def solve(self, objective: Objective, x: Tensor, carried: State) -> tuple[InnerSolution, State]: ...


@dataclass(frozen=True)
class AffineInner:
    """`solve_affine`, warm-started; θ⁰ plays no part since the minimiser is unique."""

    tol: float = 1e-10

    def init(self, objective: Objective, x: Tensor) -> State:
        return {"logits": torch.zeros_like(x[..., 0])}

    def solve(self, objective: Objective, x: Tensor, carried: State) -> tuple[InnerSolution, State]:
        solution = solve_affine(objective, x, carried["logits"], tol=self.tol)
        assert solution.logits is not None
        return solution, {"logits": solution.logits}


@dataclass(frozen=True)
class BilevelAttack:
    """Eq. (7): inner solve, inverse Hessian, hypergradient step.  Sees `released` and its own x, nothing else.

    released: weights with the labels of the training images, and θ* (p,) or one per start (S, p).
    """

    released: Weights
    inner: InnerSolver
    inverse_hessian: InverseHessian
    descent: HeavyBall = HeavyBall()

    @cached_property
    def objective(self) -> Objective:
        """The inner problem's E; built, and its labels checked, once."""
        return Objective.of(self.released)

    def init(self, x_init: Tensor) -> State:
        """State at x_init (S, n, d): that of the descent, and what the inner solver carries as "inner"."""
        return {**self.descent.init(x_init), "inner": self.inner.init(self.objective, x_init)}

    def step(self, state: State) -> State:
        """One outer iteration k of eq. (7) for every row."""
        x, theta_star = state["x"], self.released.theta_star
        solution, carried = self.inner.solve(self.objective, x, state["inner"])
        energy = outer_energy(theta_star, solution.theta)
        v = 2 * (solution.theta - theta_star)
        grad, _ = hypergradient(self.objective, x, solution, v, self.inverse_hessian)
        # A rejected step is taken back whole: the inner problem, too, goes on from where the last accepted one ended.
        kept = keep(energy < state["accepted"]["energy"], carried, state["inner"])
        return {**self.descent.step(state, energy, grad), "inner": kept}


__all__ = [
    "AffineInner",
    "BilevelAttack",
    "InverseHessian",
    "InverseProduct",
    "Woodbury",
    "hypergradient",
    "outer_energy",
]
