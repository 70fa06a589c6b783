"""All training sets with the same affine classifier: {X : F(X) = 0} for a given θ*, and projections
onto it.

F(X) = ∇_θ E(X, y; θ*) = (1/n) X̄ᵀ(σ(X̄θ*) − y) + weight_decay · θ*, eq. (6) of Runkel et al. (2024)
for the logistic loss, with the weight decay that makes the inner problem strongly convex: F(X) = 0
holds *if and only if* training on (X, y) gives θ*. These are d + 1 equations in n·d unknowns, the
pixels. With r = σ(X̄θ*) − y, D = σ(1 − σ), θ_w the weights and u = (u_w, u_b) in R^{d+1}, the
Jacobian J of F in X has

    (Jᵀu)_i = (1/n) [ r_i u_w + D_i (x̄_i · u) θ_w ]  (one image, d numbers)
    J M Jᵀ  = (1/n²) [ Σ_i r_i² M_i + A + Aᵀ + Σ_i D_i² s_i x̄_i x̄_iᵀ ],   A = Σ_i r_i D_i (M_i θ_w, 0) x̄_iᵀ,

where the diagonal 0/1 matrices M_i say which pixels are free and s_i = θ_wᵀ M_i θ_w. The bias
column of X̄ is the constant 1, not an unknown. Shapes: x (n, d), y (n,) in {0, 1}, theta (d + 1,)
with the bias last; float64 throughout.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.training.inner_problem import with_ones


def residual(x: Tensor, y: Tensor, theta: Tensor, weight_decay: float) -> Tensor:
    """F(X), (d + 1,): how far θ* is from being optimal for (X, y)."""
    x_bar = with_ones(x)
    return (torch.sigmoid(x_bar @ theta) - y) @ x_bar / len(y) + weight_decay * theta


def adjoint(x: Tensor, y: Tensor, theta: Tensor, u: Tensor) -> Tensor:
    """Jᵀu, (n, d), for u (d + 1,)."""
    r, slope = _r_and_slope(x, y, theta)
    return (torch.outer(r, u[:-1]) + torch.outer(slope * (with_ones(x) @ u), theta[:-1])) / len(y)


def apply(x: Tensor, y: Tensor, theta: Tensor, change: Tensor) -> Tensor:
    """J · change, (d + 1,), for a change (n, d) of the pixels."""
    r, slope = _r_and_slope(x, y, theta)
    through_logits = (slope * (change @ theta[:-1])) @ with_ones(x)
    return (torch.cat([r @ change, r.new_zeros(1)]) + through_logits) / len(y)


def normal_matrix(x: Tensor, y: Tensor, theta: Tensor, free: Tensor | None = None) -> Tensor:
    """J M Jᵀ, (d + 1, d + 1), by one GEMM; J itself is never formed.

    Args:
        free: (n, d) bool, default all pixels.
    """
    diagonal, half, x_bar = _normal_factors(x, y, theta, free)
    product = half.mT @ x_bar
    return product + product.mT + torch.diag(diagonal)


def solve_normal(x: Tensor, y: Tensor, theta: Tensor, free: Tensor | None, b: Tensor) -> Tensor:
    """(J M Jᵀ)⁻¹ b, (d + 1,). For 2n < d by Woodbury's identity: J M Jᵀ is diagonal plus rank 2n,
    and δ on the empty diagonal entry of the bias is taken off again as one more rank. Else, or
    where a pixel is clipped in all images, by Cholesky.
    """
    diagonal, half, x_bar = _normal_factors(x, y, theta, free)
    n, delta = len(x), diagonal[:-1].mean()
    if 2 * n >= len(theta) or diagonal[:-1].min() <= 1e-6 * delta:
        return _solve_spd(normal_matrix(x, y, theta, free), b)
    inverse = torch.cat([diagonal[:-1], delta.unsqueeze(0)]).reciprocal()
    bias = torch.zeros_like(theta).unsqueeze(0)
    bias[0, -1] = 1
    rows = torch.cat([half, x_bar, bias])
    core = (rows * inverse) @ rows.mT
    core.diagonal(n)[:n] += 1
    core.diagonal(-n)[:n] += 1
    core[-1, -1] -= 1 / delta

    def solve(b: Tensor) -> Tensor:
        return inverse * (b - torch.linalg.solve(core, rows @ (inverse * b)) @ rows)

    u = solve(b)
    remainder = b - diagonal * u - (x_bar @ u) @ half - (half @ u) @ x_bar
    return u + solve(remainder)  # one refinement restores the digits that Woodbury's identity loses


def _normal_factors(
    x: Tensor, y: Tensor, theta: Tensor, free: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """c (d + 1,), H (n, d + 1), X̄ with J M Jᵀ = diag(c) + HᵀX̄ + X̄ᵀH."""
    n, d = x.shape
    r, slope = _r_and_slope(x, y, theta)
    mask = torch.ones_like(x) if free is None else free.to(x.dtype)
    x_bar = with_ones(x)
    half = 0.5 * (slope.square() * (mask @ theta[:-1].square())).unsqueeze(-1) * x_bar
    half[:, :d] += (r * slope).unsqueeze(-1) * mask * theta[:-1]
    diagonal = torch.cat([r.square() @ mask, r.new_zeros(1)])
    return diagonal / n**2, half / n**2, x_bar


def jacobian_dense(x: Tensor, y: Tensor, theta: Tensor) -> Tensor:
    """J, (d + 1, n·d), row by row from `adjoint`: for small cases and tests."""
    identity = torch.eye(len(theta)).to(x)
    return torch.stack([adjoint(x, y, theta, u).flatten() for u in identity])


def jacobian_rank(x: Tensor, y: Tensor, theta: Tensor) -> int:
    """Rank of J: eigenvalues of J Jᵀ above τ = (d + 1) · ε · ‖J Jᵀ‖_F with ε = 2.2e-16. J Jᵀ − τI
    has a Cholesky factor exactly if they all are, so the full rank d + 1 is seen without computing
    them. Where it is full, the implicit function theorem makes the solution set a manifold of
    dimension n·d − rank around x.
    """
    matrix = normal_matrix(x, y, theta)
    norm = float(torch.linalg.matrix_norm(matrix))
    tolerance = len(matrix) * torch.finfo(matrix.dtype).eps * norm
    shifted = matrix.clone()
    shifted.diagonal().sub_(tolerance)
    if not torch.linalg.cholesky_ex(shifted).info.item():
        return len(matrix)
    return int((torch.linalg.eigvalsh(matrix) > tolerance).sum())


@dataclass(frozen=True)
class Projection:
    """A point of the solution set.

    Attributes:
        x (n, d).
        residual_norm: ‖F(x)‖₂.
        iterations: linearisations.
        multipliers: u (d + 1,) with x = clip(anchor + J(x)ᵀu).
        converged: residual_norm ≤ tol · max(1, ‖θ*‖).
    """

    x: Tensor
    residual_norm: float
    iterations: int
    multipliers: Tensor
    converged: bool


@dataclass(frozen=True)
class SolutionSet:
    """{X : F(X) = 0 and lower ≤ X ≤ upper} for labels y (n,), θ* `theta` (d + 1,), weight decay;
    lower, upper broadcast to (n, d). ReconError unless y and θ* are float64.
    """

    y: Tensor
    theta: Tensor
    weight_decay: float
    lower: Tensor
    upper: Tensor

    def __post_init__(self) -> None:
        _check_double(self.y, self.theta)

    def project(self, x_init: Tensor, tol: float = 1e-14, max_iter: int = 40) -> Projection:
        """min_X ½‖X − X_init‖² over the solution set. SQP: with F linearised at X_k the solution is
        X = clip(X_init + J_kᵀu, lower, upper), and u (d + 1 numbers, not n·d) solves F_k + J_k (X −
        X_k) = 0: one semismooth Newton step per linearisation, whose matrix is J_k M J_kᵀ over the
        unclipped pixels. Its fixed points are exactly the KKT points; the box holds at every
        iterate. A step that does not lower ‖F‖ is halved; if that fails too, X_k replaces X_init as
        the anchor (masked Gauss–Newton). Stops at ‖F‖ ≤ tol · max(1, ‖θ*‖) once X moves by less
        than 1e-9. Raises ReconError unless everything is float64.

        Args:
            max_iter: linearisations at most.
        """
        _check_double(x_init)
        anchor = x_init.clamp(self.lower, self.upper)
        state = self._at(anchor, torch.zeros_like(self.theta))
        enough = tol * max(1.0, float(self.theta.norm()))
        iteration, moved = 0, 0.0  # a start that solves the equations is returned as it is
        while iteration < max_iter and not (state.norm <= enough and moved <= 1e-9):
            iteration += 1
            trial = self._newton_step(state, enough, anchor)
            if trial is not None:
                moved = float((trial.x - state.x).abs().max())
                state = trial
            elif state.u.any():
                anchor = state.x
                state = self._at(anchor, torch.zeros_like(self.theta))
            else:  # even a fresh Gauss–Newton step cannot lower ‖F‖
                break
        return Projection(state.x, state.norm, iteration, state.u, state.norm <= enough)

    def _at(self, x: Tensor, u: Tensor) -> _State:
        f = residual(x, self.y, self.theta, self.weight_decay)
        return _State(x, u, f, float(f.norm()))

    def _newton_step(self, state: _State, enough: float, anchor: Tensor) -> _State | None:
        """u − (J M Jᵀ)⁻¹ G(u) with G(u) = F_k + J_k (clip(anchor + J_kᵀu) − X_k), or the first of
        its halves down to 1/128 that lowers ‖F‖ enough (Armijo) or keeps it ≤ `enough`. None if
        there is none, or if every pixel is clipped.
        """
        wanted = anchor + adjoint(state.x, self.y, self.theta, state.u)
        change = wanted.clamp(self.lower, self.upper) - state.x
        mismatch = state.f + apply(state.x, self.y, self.theta, change)
        free = (wanted >= self.lower) & (wanted <= self.upper)
        try:
            u = state.u - solve_normal(state.x, self.y, self.theta, free, mismatch)
        except ReconError:
            return None
        further = anchor + adjoint(state.x, self.y, self.theta, u) - wanted
        for step in (0.5**k for k in range(8)):
            x = (wanted + step * further).clamp(self.lower, self.upper)
            trial = self._at(x, state.u + step * (u - state.u))
            if trial.norm <= (1 - 0.3 * step) * state.norm or trial.norm <= enough:
                return trial
        return None


@dataclass(frozen=True)
class _State:
    """X_k with its multipliers u, F(X_k) and ‖F(X_k)‖₂."""

    x: Tensor
    u: Tensor
    f: Tensor
    norm: float


def _check_double(*tensors: Tensor) -> None:
    if not all(t.dtype == torch.float64 for t in tensors):
        raise ReconError("the solution set needs float64")


def _solve_spd(matrix: Tensor, b: Tensor) -> Tensor:
    """matrix⁻¹ b by Cholesky; a ridge of 1e-14 … 1e-8 of the mean diagonal if the mask made the
    matrix singular.
    """
    scale = matrix.diagonal().mean()
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        shifted = matrix.clone()
        shifted.diagonal().add_(ridge * scale)
        factor, info = torch.linalg.cholesky_ex(shifted)
        if not info.item():
            return torch.cholesky_solve(b.unsqueeze(-1), factor).squeeze(-1)
    raise ReconError("the constraints are degenerate here: too few free pixels")


def _r_and_slope(x: Tensor, y: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(with_ones(x) @ theta)
    return s - y, s * (1 - s)
