"""The bilevel attack on a one-hidden-layer net in the span of the images: eq. (7) at a width of
thousands.

With weight decay θ*'s first layer lies in the span of the n training images, W1* = A* V with
orthonormal rows V (k, d), k ≤ n; the adversary reads it off θ* (`SpanWeights.of`, a singular value
decomposition). θ(x) lies in the row space of x, W1 = A Q. So do p and the hypergradient, but for
what of V is outside Q:

    ‖θ* − θ(x)‖² = ‖A − A*VQᵀ‖² + ‖A*V⊥‖² + ‖other layers‖²,      V⊥ = V − VQᵀQ,
    p = (p_Q, −2 A*V⊥/ω),      dl/dx = −(M A + (r/n)δ p_Q) Q + (2/ωn) r δ A*V⊥,

with r, δ, M of `_mixed_derivative`. Nothing of the size of θ is ever formed: at the paper's
3072-6144-1 and n = 40 an outer step works on 6144 × 40 instead of 6144 × 3072 numbers. Every
iterate stays in the span of the start and of the training images until a pixel box cuts it off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.nets.mlp import MLP
from recon.nets.network import Params
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSResult, LBFGSSettings, lbfgs
from recon.optim.subspace import Subspace, reduced
from recon.optim.tree import State
from recon.training.one_hidden_layer import HiddenObjective, Pass


@dataclass(frozen=True)
class SpanWeights:
    """θ of `network` whose first layer is A B: `theta` (p',) holds A (m, k) and all other layers,
    `basis` B (k, d) has orthonormal rows.
    """

    network: MLP
    theta: Tensor
    basis: Tensor

    @staticmethod
    def of(network: MLP, theta: Tensor, rank: int) -> SpanWeights:
        """From θ (p,): the span of the first `rank` singular directions of its first layer, and θ
        in it.
        """
        space = Subspace(
            torch.linalg.svd(network.unflatten(theta)["w1"], full_matrices=False).Vh[:rank]
        )
        return SpanWeights(network, reduced(network, theta, space)[1], space.basis)

    @property
    def small(self) -> MLP:
        """The network on k inputs."""
        return self.network.with_inputs(len(self.basis))

    @property
    def first(self) -> Tensor:
        """A (m, k), a view."""
        return self.small.unflatten(self.theta)["w1"]

    def project(self, basis: Tensor) -> Tensor:
        """Coordinates (p'',) in another basis; what lies outside it is dropped."""
        params = dict(self.small.unflatten(self.theta))
        return self.small.flatten({**params, "w1": params["w1"] @ (self.basis @ basis.mT)})

    def compare(self, theta: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """θ* = self held against θ in a basis Q: ‖θ* − θ‖² · θ − θ* in coordinates of Q (p',) · V⊥
        (k, d), what of the basis of θ* is outside Q.
        """
        inside = theta - self.project(basis)
        outside = self.basis - (self.basis @ basis.mT) @ basis
        hidden = (self.first.mT @ self.first * (outside @ outside.mT)).sum()  # ‖A*V⊥‖²
        return inside.dot(inside) + hidden, inside, outside

    def distance(self, other: SpanWeights) -> float:
        """‖θ − θ'‖², summed over parameters."""
        return float(self.compare(other.theta, other.basis)[0])


def _mixed_derivative(
    objective: HiddenObjective, theta: Tensor, now: Pass, p: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """∂_x ⟨∇_θ E, p⟩ in coordinates (n, r), for p (p',) inside the span; r δ/n (n, m), for what is
    outside; and M (n, m), for what a start adds. With t = C p_w1ᵀ + p_b1: M = (1/n)[σ'(f) (Jp) δ +
    r (σ''(z) w2 t + σ'(z) p_w2)], the result M A + (r δ/n) p_w1.
    """
    n = len(objective.y)
    p1, pb, p2, _ = objective.parts(p)
    w1, b1, w2, _ = objective.parts(theta)
    residual = now.residual[:, None] / n
    weighted = residual * now.delta
    m = (now.curvature * objective.times(now, p) / n)[:, None] * now.delta + residual * (
        now.slope * p2
    )
    bend = objective.bend(now)
    w2 = w2 if objective.start is None else w2 + objective.start[1]
    if bend is not None:
        m = m + residual * bend * w2 * torch.addmm(pb, objective.coordinates, p1.mT)
    return m @ w1 + weighted @ p1, weighted, m


# a proposal nearer than this to the accepted images, relatively, is the same in float32
STALLED = 1e-7


def _warm_start(solution: LBFGSResult, basis: Tensor) -> State:
    """What the inner solver takes to the next outer iteration."""
    return {"theta": solution.theta[None], "basis": basis[None], "scale": solution.scale[None]}


@dataclass(frozen=True)
class SpanAttack:
    """Eq. (7) for one start: L-BFGS warm-started in the row space of x, a hypergradient in closed
    form, a descent step.

    Sees its own x and the release, nothing else.

    [∇²E]⁻¹ is that of its Gauss–Newton part: positive definite at every θ, also where ReLU
    minimisers sit on kinks and ∇²E is indefinite.

    Attributes:
        star: θ*.
        y: labels (n,) of the training images.
        weight_decay: of the training.
        theta_0: x's basis (n, d) -> coordinates (p',) of the inner start θ⁰ in it.
        first, next: of the inner solver before and during the outer loop.
        descent: of x.
        start: θ⁰ by name where the adversary knows what the released training began with; `star`
            and the inner θ are then what training added to it, and the decay is of that.
    """

    star: SpanWeights
    y: Tensor
    weight_decay: float
    theta_0: Callable[[Tensor], Tensor]
    first: LBFGSSettings = LBFGSSettings(max_iter=600)
    next: LBFGSSettings = LBFGSSettings(max_iter=10, halvings=20)
    descent: HeavyBall = HeavyBall()
    start: Params | None = None

    def init(self, x_init: Tensor) -> State:
        """State at x_init (1, n, d), the inner problem solved once; with "accepted" goes the inner
        solution there.
        """
        basis = self.basis_of(x_init[0])
        solution = self.solve(x_init[0], basis, self.theta_0(basis), self.first)
        state = self.descent.init(x_init)
        return {**state, "accepted": {**state["accepted"], **_warm_start(solution, basis)}}

    def step(self, state: State) -> State:
        """One outer iteration. A rejected proposal takes the inner problem back with it, and the
        accepted point is looked at again after as many more inner iterations: the energy that
        decides must not be that of a θ which is still on its way, or nothing would ever be lower.
        """
        x, accepted = state["x"][0], state["accepted"]["x"][0]
        if (
            torch.isfinite(state["accepted"]["energy"]).all()
            and (x - accepted).norm() <= STALLED * accepted.norm()
        ):
            return state  # the proposal is where we are: nothing more will happen
        inner, energy, grad = self._evaluate(x, state["accepted"])
        better = bool(energy < state["accepted"]["energy"])
        after = self.descent.step(state, energy, grad)
        looked = after["accepted"]
        if not better:
            inner, energy, grad = self._evaluate(accepted, state["accepted"])
            looked = {**looked, "energy": energy, "grad": grad}
        return {**after, "accepted": {**looked, **inner}}

    def _evaluate(self, x: Tensor, inner: State) -> tuple[State, Tensor, Tensor]:
        """The inner problem at x (n, d) from where `inner` is; energy (1,) and hypergradient (1, n,
        d).
        """
        basis = self.basis_of(x)
        before = SpanWeights(self.star.network, inner["theta"][0], inner["basis"][0])
        solution = self.solve(x, basis, before.project(basis), self.next, inner["scale"][0])
        energy, grad = self.energy_and_grad(x, basis, solution.theta)
        return _warm_start(solution, basis), energy[None], grad[None]

    @staticmethod
    def basis_of(x: Tensor) -> Tensor:
        """Orthonormal rows (n, d) that span x (n, d)."""
        return Subspace.spanned_by(x, dtype=x.dtype).basis

    def objective(self, x: Tensor, basis: Tensor) -> HiddenObjective:
        """E in coordinates."""
        begun = self.start
        start = (
            None
            if begun is None
            else (x @ begun["w1"].mT + begun["b1"], begun["w2"][0], begun["b2"][0])
        )
        small = self.star.network.with_inputs(len(basis))
        return HiddenObjective(small, x @ basis.mT, self.y, self.weight_decay, start)

    def solve(
        self,
        x: Tensor,
        basis: Tensor,
        theta: Tensor,
        settings: LBFGSSettings,
        scale: Tensor | None = None,
    ) -> LBFGSResult:
        """The inner problem at x (n, d), from coordinates theta (p',)."""
        return lbfgs(self.objective(x, basis).value_and_grad, theta, settings, scale)

    def energy_and_grad(self, x: Tensor, basis: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """‖θ* − θ(x)‖², a scalar, and its hypergradient (n, d), at an inner solution (p',)."""
        objective = self.objective(x, basis)
        now = objective.at(theta)
        energy, apart, outside = self.star.compare(theta, basis)
        p = objective.gauss_newton(now)(2 * apart)
        inside, weighted, m = _mixed_derivative(objective, theta, now, p)
        grad = -inside @ basis + (2 / self.weight_decay) * (weighted @ self.star.first) @ outside
        grad = grad if self.start is None else grad - m @ self.start["w1"]
        return energy, grad
