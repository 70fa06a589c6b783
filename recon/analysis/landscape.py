"""Energy landscapes, §4.5 of Runkel et al. (2024): many starts between truth, other images and
noise, as one batch.

    x_init = λ₂ (λ₁ x_truth + (1 − λ₁) x_partition) + (1 − λ₂) x_random  (10)

For the affine net all of the bilevel problem happens in the span of the images and θ*: with X̄ the
images with a 1 appended, θ(x) and p = [∇²E]⁻¹∇l of eq. (7) are combinations of the rows of X̄ and
of θ*, and so is every step of every image. In n + 1 coordinates instead of d = 3072 pixels the
batch of all starts fits into the cache. That is exact as long as no pixel box cuts in; the paper
has none.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recon.attacks.bilevel import BilevelAttack, outer_energy
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.stationarity import stationarity
from recon.errors import ReconError
from recon.nets.gram import gram, layer_norms
from recon.nets.mlp import MLP
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace, reduced
from recon.optim.tree import State, keep
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine
from recon.training.kkt import certificate


def mixed_starts(
    truth: Tensor, partition: Tensor, random: Tensor, lambda1: Tensor, lambda2: Tensor
) -> Tensor:
    """Eq. (10) for all pairs of λ₁ (a,) and λ₂ (b,): images (..., n, d) -> starts (..., a, b, n,
    d).
    """
    if not truth.shape == partition.shape == random.shape:
        raise ReconError("the three sets must have one shape")
    share, strength = lambda1.to(truth)[:, None, None, None], lambda2.to(truth)[:, None, None]
    a, b, noise = (images[..., None, None, :, :] for images in (truth, partition, random))
    return strength * (share * a + (1 - share) * b) + (1 - strength) * noise


def in_span(released: Weights, space: Subspace) -> Weights:
    """The affine bilevel problem in coordinates of the subspace; exact if it holds start and θ*.
    theta_star (p,) or (S, p), the subspace's basis (r, d) or (S, r, d). ReconError for any other
    network.
    """
    if released.network.depth != 1:
        raise ReconError(
            "only the affine net's bilevel problem stays in the span of its images and θ*"
        )
    network, theta = reduced(released.network, released.theta_star, space)
    return replace(released, network=network, theta_star=theta, theta_init=None)


def sweep_bilevel(
    released: Weights, x_init: Tensor, steps: int, descent: HeavyBall
) -> Reconstruction:
    """All starts x_init (S, n, d) of an affine net at once, θ* (p,) or one per start (S, p). Each
    start descends in its own n + 1 coordinates.
    """
    if descent.box is not None:
        raise ReconError("a pixel box does not fit into the coordinates of the span: leave it out")
    theta = released.theta_star.expand(len(x_init), -1)
    space = Subspace.spanned_by(x_init, theta[:, None, :-1], dtype=x_init.dtype)
    small = in_span(replace(released, theta_star=theta, theta_init=None), space)
    attack = BilevelAttack(small, descent)
    ends = reconstruct(attack, space.reduce(x_init), steps, descent.tol, label="landscape")
    return replace(ends, x_hat=space.lift(ends.x_hat))


@dataclass(frozen=True)
class StationarityAttack:
    """DecoReco's energy as a function of the images alone, descended like the bilevel one.

        f(x) = min_{λ≥0} ‖θ_1 − Σ_i λ_i y_i ∇_{θ_1} Φ(x_i; θ*)‖²,   ∇f = ∂R/∂x at the minimising λ

    (envelope theorem). λ(x) takes the place of θ(x) in eq. (7): fitted before the first step, then
    refined `refits` times a step from where it was.

    Attributes:
        weights: θ* (p,).
        labels (n,) in {−1, 1}.
    """

    weights: Weights
    labels: Tensor
    descent: HeavyBall
    alpha: float = 100.0
    refits: int = 20

    def init(self, x_init: Tensor) -> State:
        """State at x_init (S, n, d)."""
        fitted = self.fit(x_init, torch.zeros_like(x_init[..., 0]), 100 * self.refits)
        return {**self.descent.init(x_init), "multipliers": fitted}

    def fit(self, x: Tensor, multipliers: Tensor, iterations: int) -> Tensor:
        """λ ≥ 0 (S, n) by accelerated projected gradient descent (Beck & Teboulle 2009) from
        `multipliers`.
        """
        matrices, products = gram(self.weights.network, self.weights.params, x, alpha=self.alpha)
        k = self.labels[:, None] * matrices[0] * self.labels
        b = self.labels * products[0]
        size = torch.linalg.matrix_norm(k, ord=torch.inf)[:, None].clamp_min(
            torch.finfo(x.dtype).tiny
        )
        point, previous, momentum = multipliers, multipliers, 1.0
        for _ in range(iterations):
            fitted = (point - ((k @ point.unsqueeze(-1)).squeeze(-1) - b) / size).clamp_min(0)
            following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            point = fitted + (momentum - 1) / following * (fitted - previous)
            previous, momentum = fitted, following
        return previous

    def step(self, state: State) -> State:
        """Refine λ, evaluate R and ∂R/∂x, accept or take back the step."""
        x = state["x"]
        multipliers = self.fit(x, state["multipliers"], self.refits)
        coefficients = multipliers * self.labels
        layers = first_layer(self.weights.network)
        at_x = stationarity(self.weights, x, coefficients, alpha=self.alpha, layer_weights=layers)
        better = at_x.energy < state["accepted"]["energy"]
        refined = keep(better, {"multipliers": multipliers}, state)
        return {**self.descent.step(state, at_x.energy, at_x.grad_x), **refined}


def bilevel_energy(released: Weights, x: Tensor) -> Tensor:
    """‖θ* − θ(x)‖² / ‖θ*‖² of affine nets retrained on x (S, n, r); (S,)."""
    theta = solve_affine(Objective.of(released), x).theta
    return outer_energy(released.theta_star, theta) / released.theta_star.square().sum(-1)


def first_layer(network: MLP) -> tuple[float, ...]:
    """ω (L,) of the first layer alone."""
    return (1.0,) + (0.0,) * (network.depth - 1)


def stationarity_energy(network: MLP, theta_star: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """min_{λ≥0} ‖θ_1 − Σ_i λ_i y_i ∇_{θ_1} Φ(x_i; θ*)‖² / ‖θ_1‖² for images x (S, n, d); (S,).
    DecoReco's energy as a function of the images alone, as `bilevel_energy` is: λ is fitted, like
    θ(x).
    """
    params = {name: value.double() for name, value in network.unflatten(theta_star).items()}
    layers = first_layer(network)
    energies = [
        certificate(network, theta_star, images, y, layer_weights=layers).energy_by_layer[0]
        for images in x
    ]
    return torch.stack(energies) / layer_norms(network, params)[0]


def segment(a: Tensor, b: Tensor, points: int) -> Tensor:
    """`points` equidistant points from a (n, d) to b, both included; (points, n, d)."""
    t = torch.linspace(0, 1, points, dtype=a.dtype, device=a.device)[:, None, None]
    return a + t * (b - a)


def barrier(energy: Tensor) -> Tensor:
    """How far a path's energies (..., points) rise above the higher of its two ends, ≥ 0;
    (...,).
    """
    ends = torch.maximum(energy[..., 0], energy[..., -1])
    return (energy.amax(-1) - ends).clamp_min(0)


def inner_minima(energy: Tensor) -> Tensor:
    """How many local minima energies along paths (..., points) have between their ends; (...,)."""
    steps = energy.diff(dim=-1)
    return ((steps[..., :-1] < 0) & (steps[..., 1:] > 0)).sum(-1)


def curvature(
    energy: Callable[[Tensor], Tensor],
    x: Tensor,
    radius: float,
    directions: int,
    generator: torch.Generator,
) -> Tensor:
    """Mean over random directions u, ‖u‖ = `radius`, of E(x + u) + E(x − u) − 2 E(x), for one x (n,
    d).
    """
    u = torch.randn(directions, *x.shape, generator=generator, dtype=x.dtype)
    u = radius * u / u.flatten(1).norm(dim=1)[:, None, None]
    values = energy(torch.cat([x[None], x + u.to(x), x - u.to(x)]))
    return (values[1:].sum() - 2 * directions * values[0]) / directions
