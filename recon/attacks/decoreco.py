"""DecoReco: training images from weights through the stationarity condition (3).

Haim et al. (2022) and Buzaglo et al. (2023): at the end of training θ* ≈ Σ_i c_i ∇_θ Φ(x_i; θ*), so
look for images x and coefficients c_i = λ_i y_i that minimise R(x, c) of
`recon.attacks.stationarity`, plus what is known of the answer:

    energy = R(x, c) + ω_box Σ (relu(x − 1)² + relu(−1 − x)²) + ω_λ Σ_i relu(λ_min − λ_i)².

The attack sees the network, θ* and the labels that it gives its own candidates; never an image.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from recon.attacks.stationarity import stationarity
from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.optim.descent import SGD, Adam, cosine
from recon.optim.spectrum import signal_span
from recon.optim.subspace import Subspace, reduced
from recon.optim.tree import State, keep, unevaluated
from recon.released import Weights


@dataclass(frozen=True)
class DecoReco:
    """Minimise the energy above over S restarts at once, each with m candidates.

    Attributes:
        weights: θ* (p,).
        multipliers_init (S, m), in units of λ, positive if logarithmic.
        steps: length of the cosine schedule.
        logarithmic: whether λ = e^ν, positive by itself, or λ with the penalty, as in the reference
            recipe.
        optimiser_x, optimiser_multipliers: `Adam` or `SGD`.
        alpha: slope of the smoothed ReLU'.
        layer_weights: ω of `stationarity`.
        final: factor of both step sizes at the end, 1 for none.
        box_weight, lambda_min, lambda_weight: ω_box, λ_min, ω_λ.
        space: set where x are coordinates of images space.lift(x), so that the box means pixels.
        labels (m,): `half_and_half`.
    """

    weights: Weights
    multipliers_init: Tensor
    steps: int
    logarithmic: bool = True
    optimiser_x: Adam | SGD = Adam(0.02)
    optimiser_multipliers: Adam | SGD = Adam(0.01)
    alpha: float = 100.0
    layer_weights: tuple[float, ...] | None = None
    final: float = 0.05
    box_weight: float = 0.0
    lambda_min: float = 0.0
    lambda_weight: float = 0.0
    space: Subspace | None = field(default=None, repr=False)
    labels: Tensor = field(init=False)

    @property
    def network(self) -> MLP:
        """That of `weights`."""
        return self.weights.network

    def __post_init__(self) -> None:
        check_released(self.weights)
        if not (self.alpha > 0 and self.steps > 0):
            raise ReconError("alpha and steps must be positive")
        start = self.multipliers_init
        object.__setattr__(self, "labels", half_and_half(start.shape[1], start.device, start.dtype))

    def init(self, x_init: Tensor) -> State:
        """State at x_init (S, m, d), with the restarts' multipliers."""
        wanted = (*self.multipliers_init.shape, self.network.dim)
        if x_init.shape != wanted:
            raise ReconError(
                f"x_init {tuple(x_init.shape)} does not fit starts, candidates and numbers {wanted}"
            )
        raw = self.multipliers_init.log() if self.logarithmic else self.multipliers_init
        accepted = unevaluated(x_init, multipliers=self.multipliers_init.clone())
        by_layer = accepted["energy"][:, None].repeat(1, self.network.depth)
        return {
            "x": self.optimiser_x.init(x_init),
            "multipliers": self.optimiser_multipliers.init(raw),
            "taken": torch.zeros((), dtype=torch.int64),
            "accepted": {**accepted, "by_layer": by_layer},
        }

    def step(self, state: State) -> State:
        """Evaluate, keep the best by the attack's own energy, move x and multipliers."""
        x, raw = state["x"]["x"], state["multipliers"]["x"]
        multipliers = raw.exp() if self.logarithmic else raw
        by_layer, energy, grad_x, grad_multipliers = self.value_and_grad(x, multipliers)
        grad_raw = grad_multipliers * multipliers if self.logarithmic else grad_multipliers
        new = {"x": x, "energy": energy, "multipliers": multipliers, "by_layer": by_layer}
        factor = cosine(int(state["taken"]) + 1, self.steps, self.final)
        return {
            "x": self.optimiser_x.step(state["x"], energy, grad_x, factor),
            "multipliers": self.optimiser_multipliers.step(
                state["multipliers"], energy, grad_raw, factor
            ),
            "taken": state["taken"] + 1,
            "accepted": keep(energy < state["accepted"]["energy"], new, state["accepted"]),
        }

    def value_and_grad(
        self, x: Tensor, multipliers: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(R by layer (S, L), energy (S,), ∂energy/∂x (S, m, d), ∂energy/∂λ (S, m))."""
        objective = stationarity(
            self.weights,
            x,
            multipliers * self.labels,
            alpha=self.alpha,
            layer_weights=self.layer_weights,
        )
        energy, grad_x = objective.energy, objective.grad_x
        grad_multipliers = objective.grad_c * self.labels
        if self.box_weight:
            pixels = x if self.space is None else self.space.lift(x)
            outside = (pixels - 1).clamp_min(0) - (-1 - pixels).clamp_min(0)
            energy = energy + self.box_weight * outside.square().sum((-2, -1))
            grad_x = grad_x + 2 * self.box_weight * (
                outside if self.space is None else self.space.reduce(outside)
            )
        if self.lambda_weight and not self.logarithmic:
            short = (self.lambda_min - multipliers).clamp_min(0)
            energy = energy + self.lambda_weight * short.square().sum(-1)
            grad_multipliers = grad_multipliers - 2 * self.lambda_weight * short
        return objective.by_layer, energy, grad_x, grad_multipliers

    def restricted(self, space: Subspace) -> DecoReco:
        """The same attack on coordinates (r,) in a subspace of the images. R differs by the
        constant ‖w1 − w1 BᵀB‖², what no image in the span of B can explain.
        """
        network, theta_star = reduced(self.network, self.weights.theta_star, space)
        weights = replace(self.weights, network=network, theta_star=theta_star, theta_init=None)
        return replace(self, weights=weights, space=space)


def check_released(weights: Weights) -> None:
    """ReconError for more than one θ*."""
    if weights.theta_star.dim() != 1:
        raise ReconError(f"one θ* is wanted, not {tuple(weights.theta_star.shape)}")


def half_and_half(
    m: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Tensor:
    """Labels of m candidates, −1 for the first half and 1 for the second; ReconError for m odd or
    0.
    """
    if m <= 0 or m % 2:
        raise ReconError(f"the number of candidates must be even and positive, not {m}")
    return torch.tensor([-1.0, 1.0], dtype=dtype, device=device).repeat_interleave(m // 2)


def image_span(weights: Weights) -> Subspace:
    """What training added to the first layer, r ≥ 1 dimensions: nearly the span of the images.
    `signal_span` of its weights; their first direction where nothing stands out. Needs no image: θ*
    alone.
    """
    check_released(weights)
    w = weights.params[weights.network.names[0][0]]
    span = signal_span(w)
    return Subspace(
        span if len(span) else torch.linalg.svd(w.double(), full_matrices=False).Vh[:1].to(w.dtype)
    )
