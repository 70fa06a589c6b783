"""The inner problem (1) of the one-hidden-layer net, eq. (9), in closed form: for one set of images
and widths of thousands, where automatic differentiation would spend its time on memory.

E(θ) = (1/n) Σ_i L(f_i, y_i) + (ω/2) ‖θ‖², f = σ(z) w2 + b2, z = C W1ᵀ + b1, with C (n, r) the
images or their coordinates in a subspace. With δ_ik = σ'(z_ik) w2_k and h = σ(z) the Jacobian of
the logits has the Gram matrix

    (J Jᵀ)_ij = ⟨δ_i, δ_j⟩ (⟨c_i, c_j⟩ + 1) + ⟨h_i, h_j⟩ + 1,

so that the Gauss–Newton matrix JᵀDJ/n + ω·I, D = diag σ'(f), is inverted by n × n systems
(Woodbury).

Where training adds θ to a start θ⁰ that is not small, all of this holds with θ⁰ + θ for θ, but for
the decay.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP


@dataclass(frozen=True)
class Pass:
    """At one θ: slope σ'(z), h = σ(z), δ = σ'(z) w2, all (n, m); logits f, residual r = sigmoid(f)
    − y, curvature sigmoid'(f), all (n,).
    """

    slope: Tensor
    h: Tensor
    delta: Tensor
    logits: Tensor
    residual: Tensor
    curvature: Tensor


@dataclass(frozen=True)
class HiddenObjective:
    """E for images `coordinates` C (n, r), labels y (n,) in {0, 1}, weight decay ω > 0; θ is a
    vector (p,) as `network` flattens it · start: None, or of the θ⁰ to which θ is added: X W1⁰ᵀ +
    b1⁰ (n, m), w2⁰ (m,) and b2⁰ (). ReconError for another depth.
    """

    network: MLP
    coordinates: Tensor
    y: Tensor
    weight_decay: float
    start: tuple[Tensor, Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        if (
            self.network.depth != 2
            or self.network.bias not in (None, (True, True))
            or self.network.widths[-1] != 1
        ):
            raise ReconError(
                "the closed form needs one hidden layer, one logit, and biases in both layers"
            )

    def parts(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W1 (m, r), b1 (m,), w2 (m,), b2 (), views."""
        p = self.network.unflatten(theta)
        return p["w1"], p["b1"], p["w2"][0], p["b2"][0]

    def at(self, theta: Tensor) -> Pass:
        """One forward pass."""
        w1, b1, w2, b2 = self.parts(theta)
        z = torch.addmm(b1, self.coordinates, w1.mT)
        if self.start is not None:
            z, w2, b2 = z + self.start[0], w2 + self.start[1], b2 + self.start[2]
        slope, h = self.network.slope(z), self.network.activation(z)
        logits = h @ w2 + b2
        chance = torch.sigmoid(logits)
        return Pass(slope, h, slope * w2, logits, chance - self.y, chance * (1 - chance))

    def bend(self, now: Pass) -> Tensor | None:
        """σ''(z) (n, m) = β σ'(1 − σ') of a smoothed ReLU; None for ReLU, whose bends are the
        kinks.
        """
        smoothing = self.network.smoothing
        return None if smoothing is None else smoothing * now.slope * (1 - now.slope)

    def value(self, theta: Tensor, logits: Tensor) -> Tensor:
        """E, a scalar."""
        return F.binary_cross_entropy_with_logits(
            logits, self.y
        ) + 0.5 * self.weight_decay * theta.dot(theta)

    def value_and_grad(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """(E, ∇E (p,))."""
        now = self.at(theta)
        return self.value(theta, now.logits), self.transposed(
            now, now.residual / len(self.y), theta
        )

    def transposed(self, now: Pass, u: Tensor, theta: Tensor | None = None) -> Tensor:
        """Jᵀu (p,) for u (n,), plus ω θ where θ is given."""
        out = now.h.new_zeros(self.network.n_params) if theta is None else self.weight_decay * theta
        w1, b1, w2, b2 = self.parts(out)
        weighted = now.delta * u[:, None]
        w1.addmm_(weighted.mT, self.coordinates)
        b1.add_(weighted.sum(0))
        w2.addmv_(now.h.mT, u)
        b2.add_(u.sum())
        return out

    def times(self, now: Pass, v: Tensor) -> Tensor:
        """J v (n,) for v (p,)."""
        w1, b1, w2, b2 = self.parts(v)
        return (now.delta * torch.addmm(b1, self.coordinates, w1.mT)).sum(1) + now.h @ w2 + b2

    def gram(self, now: Pass) -> Tensor:
        """J Jᵀ (n, n)."""
        c = self.coordinates
        return (now.delta @ now.delta.mT) * (c @ c.mT + 1) + now.h @ now.h.mT + 1

    def gauss_newton(self, now: Pass) -> Callable[[Tensor], Tensor]:
        """v -> (JᵀDJ/n + ω·I)⁻¹ v at this pass; the n × n system is formed and solved in
        float64.
        """
        root = now.curvature.double().sqrt()
        n = len(self.y)
        system = root[:, None] * self.gram(now).double() * root
        system.diagonal().add_(n * self.weight_decay)
        factor = torch.linalg.cholesky(system)

        def apply(v: Tensor) -> Tensor:
            scaled = root * self.times(now, v).double()
            inner = torch.cholesky_solve(scaled[:, None], factor)[:, 0]
            return (v - self.transposed(now, (root * inner).to(v.dtype))) / self.weight_decay

        return apply
