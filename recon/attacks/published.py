"""The reference recipe of Haim et al. (2022) and Buzaglo et al. (2023) with its published step sizes, nothing searched.

    E(x, λ) = ‖θ − (1/m) Σ_i λ_i y_i ∇Φ(x_i; θ)‖² + Σ relu(|x| − 1)² + 5 Σ_i relu(λ_min − λ_i)²

over all layers, by gradient descent with momentum 0.9 on x (step 0.5549) and on λ (step 1e-4) for 50,000 steps.  These
values (CIFAR-10, binary, run 1) fit weights as large as the reference's own: train by
`recon.training.kkt.KKTSettings.gradient_flow`.  For others see `recon.attacks.reference`, which searches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from recon.attacks.decoreco import check_released, half_and_half
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.reference import ALPHA, LAMBDA_MIN, STEP_MULTIPLIERS
from recon.attacks.stationarity import stationarity
from recon.errors import ReconError
from recon.optim.loop import Checkpoint
from recon.optim.tree import State, keep, unevaluated
from recon.released import Weights

STEP_X, MOMENTUM, STEPS, CANDIDATES = 0.554917, 0.9, 50_000, 1000
PRECISIONS = {"float32": "highest", "bfloat16": "medium"}


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """float32 matrices are multiplied in this precision, sums in float32; ReconError for one not in `PRECISIONS`."""
    if precision not in PRECISIONS:
        raise ReconError(f"unknown precision '{precision}': choose one of {', '.join(PRECISIONS)}")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@lru_cache(maxsize=8)
def marks(steps: int, early: int = 30, late: int = 20) -> tuple[int, ...]:
    """Steps at which `PublishedRecipe` notes where it is: `early` evenly on a log scale, `late` evenly, the last one.

    >>> marks(10, early=3, late=2)
    (1, 3, 5, 10)
    """
    logarithmic = {round(math.exp(v)) for v in torch.linspace(0, math.log(steps), early).tolist()}
    linear = {round(v) for v in torch.linspace(0, steps, late + 1).tolist()[1:]}
    return tuple(sorted(logarithmic | linear))


@dataclass(frozen=True)
class PublishedRecipe:
    """The recipe for one start of m candidates, labelled −1 (first half) and 1; `reconstruct` runs it.

    multipliers_init: λ (1, m) · steps: of the budget, for `marks` · step_x, step_multipliers: of the images and of λ ·
    precision: of the products, see `products_in`.

    Beside x, energy and multipliers, "accepted" holds x_init and a trace (len(marks), L + 2): at every mark the energy
    of each layer, ‖θ_l − …‖², the whole energy, and the mean of `moved`.
    """

    weights: Weights
    multipliers_init: Tensor
    steps: int
    step_x: float = STEP_X
    step_multipliers: float = STEP_MULTIPLIERS
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_released(self.weights)

    def init(self, x_init: Tensor) -> State:
        """State at x_init (1, m, d); ReconError for shapes that do not fit."""
        if x_init.dim() != 3 or len(x_init) != 1 or self.multipliers_init.shape != x_init.shape[:2]:
            shapes = tuple(x_init.shape), tuple(self.multipliers_init.shape)
            raise ReconError(f"one start (1, m, d) with multipliers (1, m) is wanted, not {shapes[0]} with {shapes[1]}")
        trace = x_init.new_full((len(marks(self.steps)), self.weights.network.depth + 2), torch.nan)
        first = unevaluated(x_init, multipliers=self.multipliers_init.clone(), x_init=x_init.clone(), trace=trace)
        return {
            "x": x_init.clone(),
            "multipliers": self.multipliers_init.clone(),
            "velocity_x": torch.zeros_like(x_init),
            "velocity": torch.zeros_like(self.multipliers_init),
            "taken": torch.zeros((), dtype=torch.int64),
            "accepted": first,
        }

    def step(self, state: State) -> State:
        """Evaluate, keep the best by the energy, move x and λ."""
        x, multipliers, accepted = state["x"], state["multipliers"], state["accepted"]
        by_layer, energy, grad_x, grad = self.value_and_grad(x, multipliers)
        velocity_x = (MOMENTUM * state["velocity_x"]).add_(grad_x)
        velocity = MOMENTUM * state["velocity"] + grad
        new = {"x": x, "energy": energy, "multipliers": multipliers}
        kept = keep(energy < accepted["energy"], new, accepted)
        taken = state["taken"] + 1
        trace = accepted["trace"]
        if int(taken) in marks(self.steps):
            trace = trace.clone()
            where = torch.cat([by_layer[0], energy, moved(x, accepted["x_init"]).mean()[None]])
            trace[marks(self.steps).index(int(taken))] = where
        return {
            "x": torch.add(x, velocity_x, alpha=-self.step_x),
            "multipliers": multipliers - self.step_multipliers * velocity,
            "velocity_x": velocity_x,
            "velocity": velocity,
            "taken": taken,
            "accepted": {**kept, "x_init": accepted["x_init"], "trace": trace},
        }

    def value_and_grad(self, x: Tensor, multipliers: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(R by layer (1, L), energy (1,), ∂E/∂x (1, m, d), ∂E/∂λ (1, m))."""
        m = x.shape[1]
        unit = half_and_half(m, x.device, x.dtype) / m  # ∂c_i/∂λ_i
        with products_in(self.precision):
            found = stationarity(self.weights, x, multipliers * unit, alpha=ALPHA)
        outside, short = x - x.clamp(-1, 1), (LAMBDA_MIN - multipliers).clamp_min(0)
        energy = found.energy + outside.square().sum((-2, -1)) + 5 * short.square().sum(-1)
        return found.by_layer, energy, found.grad_x.add_(outside, alpha=2), found.grad_c * unit - 10 * short


def moved(x: Tensor, x_init: Tensor) -> Tensor:
    """‖x_i − x_i(0)‖ / ‖x_i(0)‖ of candidates (..., m, d): (..., m), flattened over starts."""
    return ((x - x_init).norm(dim=-1) / x_init.norm(dim=-1).clamp_min(1e-12)).flatten()


@dataclass(frozen=True)
class PublishedSettings:
    """m: candidates, as many as `x_init` where that is given · steps · init_scale: standard deviation of the start's
    pixels · precision: of the products · scaled: both step sizes times m / 1000.  The multipliers enter as λ_i/m, so
    the gradient by an image is as 1/m, and the published steps, for m = 1000, are that much longer for fewer."""

    m: int
    steps: int = STEPS
    init_scale: float = 1.0
    precision: str = "float32"
    scaled: bool = False


def recover_as_published(
    weights: Weights,
    settings: PublishedSettings,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
    x_init: Tensor | None = None,
) -> Reconstruction:
    """x ~ init_scale · N(0, 1) or x_init (m, d), labels −1 first; λ ~ U[0, 1).

    `accepted` holds λ (1, m) at the lowest energy, x_init (1, m, d) and the trace of `PublishedRecipe`.
    """
    theta_star = weights.theta_star
    m = settings.m if x_init is None else len(x_init)
    unit = torch.rand(1, m, generator=generator).to(theta_star)
    noise = settings.init_scale * torch.randn(1, m, weights.network.dim, generator=generator)
    start = noise.to(theta_star) if x_init is None else x_init[None].to(theta_star)
    scale = m / CANDIDATES if settings.scaled else 1.0
    steps = (settings.steps, scale * STEP_X, scale * STEP_MULTIPLIERS)
    attack = PublishedRecipe(weights, unit, *steps, precision=settings.precision)
    return reconstruct(attack, start, settings.steps, checkpoint=checkpoint, every_s=90.0, label="published recipe")
