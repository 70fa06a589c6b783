"""The hypergradient of a ReLU net whose inner minimiser sits on kinks: the derivative of a KKT system.

With weight decay many pre-activations of a minimiser are exactly 0.  There ∇E jumps, the Hessian of either side says
nothing of how θ(x) moves, and what holds is, with A the set of kinks z_ik = x_i·w_k + b_k = 0, Z = ∂z_A/∂θ and E₀ the
smooth piece on which the units of A are off,

    ∇E₀(θ) + Zᵀμ = 0,   z_A(θ, x) = 0,   0 ≤ μ_ik / (r_i w2_k / n) ≤ 1.

θ(x) moves along the kinks while A stays the same, and the adjoint of eq. (7) becomes

    [H  Zᵀ; Z  0] (p, q) = (v, 0),   dl/dx = −∂_x ⟨∇E₀ + Zᵀμ, p⟩ − ∂_x ⟨z_A, q⟩.

Units with one direction can share its mass in any proportion (Pilanci & Ergen 2020): the minimisers form a continuum,
the system is singular, and its pseudo-inverse is the motion of least length.  Dense: for small networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.bilevel_span import Apart, SpanAttack
from recon.optim.lbfgs_in_place import InPlaceResult
from recon.training.hidden import HiddenObjective

NULL = 1e-2  # of the weight decay: tangential curvature below it belongs to the continuum


@dataclass(frozen=True)
class Kinks:
    """on: which units are on at which image (n, m), those of A off · at: images (rows) and units of A (2, a)."""

    on: Tensor
    at: Tensor

    @staticmethod
    def near(objective: HiddenObjective, theta: Tensor, tol: float = 1e-3) -> Kinks:
        """A: |z_ik| ≤ tol · ‖(w_k, b_k)‖."""
        w1, b1, _, _ = objective.parts(theta)
        z = objective.coordinates @ w1.mT + b1
        close = z.abs() <= tol * (w1.square().sum(1) + b1.square()).sqrt()
        return Kinks((z > 0) & ~close, close.nonzero().mT)

    def jacobian(self, objective: HiddenObjective) -> Tensor:
        """Z = ∂z_A/∂θ (a, p)."""
        z = objective.coordinates.new_zeros(self.at.shape[1], objective.network.n_params)
        params = objective.network.unflatten(z)
        rows = torch.arange(len(z))
        params["w1"][rows, self.at[1]] = objective.coordinates[self.at[0]]
        params["b1"][rows, self.at[1]] = 1.0
        return z

    def spread(self, values: Tensor) -> Tensor:
        """Values (a,) of the kinks as a matrix (n, m), 0 elsewhere."""
        matrix = values.new_zeros(self.on.shape)
        matrix[self.at[0], self.at[1]] = values
        return matrix


@dataclass(frozen=True)
class Piece:
    """The smooth piece E₀ at one θ: gradient (p,), Hessian (p, p), logits' residual r/n and curvature σ'/n (n,)."""

    grad: Tensor
    hessian: Tensor
    residual: Tensor
    curvature: Tensor
    hidden: Tensor

    @staticmethod
    def of(objective: HiddenObjective, theta: Tensor, on: Tensor) -> Piece:
        """By hand: JᵀDJ/n, the coupling of w1 and w2 within a unit, the decay."""
        network, x = objective.network, objective.coordinates
        n, width, dim = len(x), on.shape[1], x.shape[1]
        w1, b1, w2, b2 = objective.parts(theta)
        gate = on.to(x.dtype)
        hidden = gate * (x @ w1.mT + b1)
        chance = torch.sigmoid(hidden @ w2 + b2)
        residual, curvature = (chance - objective.y) / n, chance * (1 - chance) / n
        delta = gate * w2
        first = (delta[:, :, None] * x[:, None]).flatten(1)
        jacobian = torch.cat([first, delta, hidden, torch.ones_like(x[:, :1])], dim=1)
        hessian = (jacobian * curvature[:, None]).mT @ jacobian
        hessian += objective.weight_decay * torch.eye(network.n_params, dtype=x.dtype)
        pull = torch.einsum("i,ik,ij->kj", residual, gate, torch.cat([x, torch.ones_like(x[:, :1])], dim=1))
        unit = torch.arange(width)
        second = width * (dim + 1) + unit
        for j in range(dim + 1):
            place = unit * dim + j if j < dim else width * dim + unit
            hessian[place, second] += pull[:, j]
            hessian[second, place] += pull[:, j]
        return Piece(jacobian.mT @ residual + objective.weight_decay * theta, hessian, residual, curvature, hidden)


def adjoint(piece: Piece, z: Tensor, v: Tensor, weight_decay: float) -> tuple[Tensor, Tensor]:
    """(p, q) of the module's system for v (p,), by least squares: p in the tangent space Zp = 0, and there orthogonal
    to directions of (nearly) no curvature."""
    tangent = _complement(z)
    values, vectors = torch.linalg.eigh(tangent.mT @ piece.hessian @ tangent)
    inverse = torch.where(values > NULL * weight_decay, 1 / values, torch.zeros_like(values))
    p = tangent @ (vectors @ (inverse * (vectors.mT @ (tangent.mT @ v))))
    return p, _least(z.mT, v - piece.hessian @ p)


def _complement(z: Tensor) -> Tensor:
    """Orthonormal columns (p, p − rank) orthogonal to the rows of z (a, p)."""
    if len(z) == 0:
        return torch.eye(z.shape[1], dtype=z.dtype)
    u, s, _ = torch.linalg.svd(z.mT)
    return u[:, int((s > 1e-8 * s[0]).sum()) :]


def _least(matrix: Tensor, rhs: Tensor) -> Tensor:
    """Least-squares solution of least norm."""
    if matrix.shape[1] == 0:
        return rhs.new_zeros(0)
    return torch.linalg.lstsq(matrix, rhs[:, None], rcond=1e-9, driver="gelsd").solution[:, 0]


@dataclass(frozen=True)
class KinkAttack(SpanAttack):
    """`SpanAttack` with the hypergradient of the KKT system; tol: see `Kinks.near`."""

    tol: float = 1e-3

    def energy_and_grad(self, x: Tensor, basis: Tensor, found: InPlaceResult) -> tuple[Tensor, Tensor]:
        """‖θ* − θ(x)‖², a scalar, and its hypergradient (n, d)."""
        objective, theta = self.objective(x, basis), found.theta
        apart = Apart.between(self.star.onto, self.star, theta, basis)
        kinks = Kinks.near(objective, theta, self.tol)
        piece, z = Piece.of(objective, theta, kinks.on), kinks.jacobian(objective)
        p, q = adjoint(piece, z, 2 * apart.inside, self.weight_decay)
        inside, weighted = mixed_on_kinks(objective, theta, kinks, piece, p, q, _least(z.mT, -piece.grad))
        grad = -inside @ basis + (2 / self.weight_decay) * (weighted @ self.star.first) @ apart.outside
        return apart.energy, grad


def mixed_on_kinks(
    objective: HiddenObjective, theta: Tensor, kinks: Kinks, piece: Piece, p: Tensor, q: Tensor, mu: Tensor
) -> tuple[Tensor, Tensor]:
    """∂_x (⟨∇E₀ + Zᵀμ, p⟩ + ⟨z_A, q⟩) in coordinates (n, r), and the weights (n, m) of what is outside."""
    p1, pb, p2, p0 = objective.parts(p)
    w1, _, w2, _ = objective.parts(theta)
    gate = kinks.on.to(theta.dtype)
    along = objective.coordinates @ p1.mT + pb
    jp = (gate * w2 * along).sum(1) + piece.hidden @ p2 + p0
    m = (piece.curvature * jp)[:, None] * gate * w2 + piece.residual[:, None] * gate * p2 + kinks.spread(q)
    weighted = piece.residual[:, None] * gate * w2 + kinks.spread(mu)
    return m @ w1 + weighted @ p1, weighted


@dataclass(frozen=True)
class OnKinks:
    """A point of the KKT system: θ (p,), its kinks, multipliers μ (a,), and whether every condition holds."""

    theta: Tensor
    kinks: Kinks
    mu: Tensor
    certified: bool


def settle(objective: HiddenObjective, theta: Tensor, tol: float = 3e-3, rounds: int = 12) -> OnKinks:
    """From an approximate minimiser to the KKT point nearby, by Newton's method with an active set; units with |w2|
    below a fiftieth are taken for dead.  `certified`: residual < 1e-12, multipliers in bounds, no sign changed."""
    params = dict(objective.network.unflatten(theta))
    live = params["w2"][0].abs() >= 2e-2
    params |= {"w1": params["w1"] * live[:, None], "b1": params["b1"] * live, "w2": params["w2"] * live}
    theta = objective.network.flatten(params)
    kinks = Kinks.near(objective, theta, tol)
    kinks = Kinks(kinks.on, kinks.at[:, live[kinks.at[1]]])
    for _ in range(rounds):
        found, mu, residual = follow(objective, theta, kinks, 12)
        w1, b1, w2, _ = objective.parts(found)
        z = objective.coordinates @ w1.mT + b1
        share = mu / (Piece.of(objective, found, kinks.on).residual[kinks.at[0]] * w2[kinks.at[1]])
        wrong = (share < -1e-7) | (share > 1 + 1e-7)
        on_kink = kinks.spread(torch.ones_like(mu)).bool()
        flipped = ((z > 0) != kinks.on) & ~on_kink & live
        if residual < 1e-12 and not wrong.any() and not flipped.any():
            return OnKinks(found, kinks, mu, True)
        theta = found if residual < 1e-6 else theta
        on = kinks.on.clone()
        on[kinks.at[0, wrong], kinks.at[1, wrong]] = share[wrong] > 0.5
        stay = (on_kink & ~kinks.spread(wrong.to(mu)).bool()) | flipped
        kinks = Kinks(on & ~stay, stay.nonzero().mT)
    return OnKinks(found, kinks, mu, False)


def follow(
    objective: HiddenObjective, theta: Tensor, kinks: Kinks, steps: int = 3, mu: Tensor | None = None
) -> tuple[Tensor, Tensor, float]:
    """Newton's method on the KKT system with its kinks fixed, by steps of least length: (θ, μ, residual)."""
    z = kinks.jacobian(objective)
    mu = _least(z.mT, -Piece.of(objective, theta, kinks.on).grad) if mu is None else mu
    zero = torch.zeros(len(z), len(z), dtype=z.dtype)
    for _ in range(steps):
        piece = Piece.of(objective, theta, kinks.on)
        missing = torch.cat([piece.grad + z.mT @ mu, z @ theta])
        if missing.norm() < 1e-14:
            break
        system = torch.cat([torch.cat([piece.hessian, z.mT], 1), torch.cat([z, zero], 1)])
        move = _least(system, -missing)
        theta, mu = theta + move[: len(theta)], mu + move[len(theta) :]
    piece = Piece.of(objective, theta, kinks.on)
    return theta, mu, torch.cat([piece.grad + z.mT @ mu, z @ theta]).norm().item()
