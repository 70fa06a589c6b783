"""The bilevel formulation (2) and its hypergradient, eq. (7) of Runkel et al. (2024), for the
affine network.

    min_x l(θ*, θ(x))   s.t.   θ(x) = argmin_θ E(x, y; θ),     l = ‖θ* − θ‖²

By the implicit function theorem dl/dx = −∂_x ⟨∇_θ E(x, y; θ), p⟩ at θ = θ(x) with p = [∇²_θ E]⁻¹
∇_θ l (Lorraine et al. 2020). Of the affine network both θ(x) and p are had exactly.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from recon.optim.descent import HeavyBall
from recon.optim.tree import State, keep
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine, with_ones


def outer_energy(theta_star: Tensor, theta: Tensor) -> Tensor:
    """l(θ*, θ) = ‖θ* − θ‖², summed over parameters; (S, p) -> (S,)."""
    return (theta - theta_star).square().sum(-1)


def inverse_hessian(objective: Objective, x: Tensor, theta: Tensor, v: Tensor) -> Tensor:
    """[∇²_θ E]⁻¹ v (S, p) of the affine net at θ (S, p), exactly, by Woodbury's formula: n × n
    systems, not p × p. ∇²E = JᵀDJ/n + wd·I with J = X̄ (S, n, p) and D = diag σ'(z), so with A =
    D^½ J its inverse times v is (v − Aᵀ(n·wd·I + AAᵀ)⁻¹ A v) / wd. The small system is formed and
    solved in float64: n·wd is often below the float32 rounding of AAᵀ.
    """
    s = torch.sigmoid(objective.logits(theta, x))
    n, weight_decay = x.shape[-2], objective.weight_decay
    scaled = ((s * (1 - s)).sqrt().unsqueeze(-1) * with_ones(x)).double()
    system = scaled @ scaled.mT
    system.diagonal(dim1=-2, dim2=-1).add_(n * weight_decay)
    inner = torch.cholesky_solve(scaled @ v.double().unsqueeze(-1), torch.linalg.cholesky(system))
    return ((v.double() - (scaled.mT @ inner).squeeze(-1)) / weight_decay).to(v.dtype)


def hypergradient(objective: Objective, x: Tensor, theta: Tensor, p: Tensor) -> Tensor:
    """dl/dx = −∂_x ⟨∇_θ E(x, y; θ), p⟩ (S, n, d) at θ = θ(x) (S, p), with p = [∇²_θ E]⁻¹ ∇_θ l (S,
    p). Eq. (7) as printed has no minus sign, and one ∇ too many.
    """
    x, theta = x.detach().requires_grad_(), theta.detach().requires_grad_()
    with torch.enable_grad():
        coupling = (objective.grad(theta, x, create_graph=True) * p).sum()
    return -torch.autograd.grad(coupling, x)[0]


@dataclass(frozen=True)
class BilevelAttack:
    """Eq. (7): inner solve, inverse Hessian, hypergradient step. Sees `released` and its own x,
    nothing else.

    Attributes:
        released: of an affine net, with the labels of the training images, and θ* (p,) or one per
            start (S, p).
        inner_tol: of `solve_affine`, which goes on from the logits before; θ⁰ plays no part since
            the minimiser is unique.
    """

    released: Weights
    descent: HeavyBall = HeavyBall()
    inner_tol: float = 1e-10

    @cached_property
    def objective(self) -> Objective:
        """The inner problem's E; built, and its labels checked, once."""
        return Objective.of(self.released)

    def init(self, x_init: Tensor) -> State:
        """State at x_init (S, n, d): that of the descent, and the logits (S, n) of the inner
        problem as "inner".
        """
        return {**self.descent.init(x_init), "inner": {"logits": torch.zeros_like(x_init[..., 0])}}

    def step(self, state: State) -> State:
        """One outer iteration k of eq. (7) for every row."""
        x, theta_star = state["x"], self.released.theta_star
        solution = solve_affine(self.objective, x, state["inner"]["logits"], tol=self.inner_tol)
        energy = outer_energy(theta_star, solution.theta)
        p = inverse_hessian(self.objective, x, solution.theta, 2 * (solution.theta - theta_star))
        grad = hypergradient(self.objective, x, solution.theta, p)
        # A rejected step is taken back whole: the inner problem, too, goes on from where the last
        # accepted one ended.
        inner = keep(
            energy < state["accepted"]["energy"], {"logits": solution.logits}, state["inner"]
        )
        return {**self.descent.step(state, energy, grad), "inner": inner}
