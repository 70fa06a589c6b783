"""The recipe of Haim et al. (2022) for two classes, with its published step sizes, nothing
searched.

    E(x, λ) = ‖θ − (1/m) Σ_i λ_i y_i ∇Φ(x_i; θ)‖² + Σ relu(|x| − 1)² + 5 Σ_i relu(λ_min − λ_i)²

over all layers, by gradient descent with momentum 0.9 on x (step 0.5549) and on λ (step 1e-4) for
50,000 steps. These values (CIFAR-10, the first of `RUNS`) were found by random search with the true
images, and fit weights as large as the reference's own: train with
`KKTSettings.gradient_flow`. On weights of another size the descent may diverge; `recipe_attack` has
the step size in x as an argument.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from recon.attacks.decoreco import DecoReco
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.errors import ReconError
from recon.optim.descent import SGD
from recon.optim.loop import Checkpoint
from recon.optim.tree import State
from recon.released import Weights

STEP_X, MOMENTUM, STEPS, CANDIDATES = 0.554917, 0.9, 50_000, 1000
ALPHA, LAMBDA_MIN, STEP_MULTIPLIERS, TUNED_SCALE = 19.14455, 0.498303, 1e-4, 8.857493e-4
#: for CIFAR-10 and two classes, (init_scale, step in x, λ_min, α), by the command lines of
#: nivha/dataset_reconstruction@3076552c: 1 is b9dfyspx, 2 is k60fvjdy. The second stands in Buzaglo
#: et al.'s repository too, whose own settings (ten classes, regression) have other scales
RUNS = {1: (TUNED_SCALE, STEP_X, LAMBDA_MIN, ALPHA), 2: (4.473685e-3, 0.346208, 0.493591, 21.67936)}
PRECISIONS = {"float32": "highest", "bfloat16": "medium"}


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """float32 matrices are multiplied in this precision, sums in float32; ReconError for one not in
    `PRECISIONS`.
    """
    if precision not in PRECISIONS:
        raise ReconError(f"unknown precision '{precision}': choose one of {', '.join(PRECISIONS)}")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(PRECISIONS[precision])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@lru_cache(maxsize=8)
def marks(steps: int) -> tuple[int, ...]:
    """Steps at which `TracedRecipe` notes where it is: 30 evenly on a log scale, 20 evenly, the
    last one.

    >>> marks(100)[:8], marks(100)[-4:]
    ((1, 2, 3, 4, 5, 6, 7, 8), (85, 90, 95, 100))
    """
    logarithmic = {round(math.exp(v)) for v in torch.linspace(0, math.log(steps), 30).tolist()}
    linear = {round(v) for v in torch.linspace(0, steps, 21).tolist()[1:]}
    return tuple(sorted(logarithmic | linear))


def recipe_attack(
    weights: Weights,
    unit: Tensor,
    steps: int,
    step_x: float = STEP_X,
    step_multipliers: float = STEP_MULTIPLIERS,
    lambda_min: float = LAMBDA_MIN,
    alpha: float = ALPHA,
) -> DecoReco:
    """The recipe as `DecoReco`, from λ = unit (1, m). With c_i = λ_i/m, λ's step and penalty scale
    by 1/m² and m².
    """
    m = unit.shape[1]
    return DecoReco(
        *(weights, unit / m, steps),
        logarithmic=False,
        optimiser_x=SGD(step_x, MOMENTUM),
        optimiser_multipliers=SGD(step_multipliers / m**2, MOMENTUM),
        alpha=alpha,
        final=1.0,
        box_weight=1.0,
        lambda_min=lambda_min / m,
        lambda_weight=5.0 * m**2,
    )


@dataclass(frozen=True)
class TracedRecipe:
    """One start of the recipe, with notes on where it is; `reconstruct` runs it.

    Beside what `DecoReco` keeps, "accepted" holds x_init and a trace (len(marks), L + 2): at every
    mark the energy of each layer, ‖θ_l − …‖², the whole energy, and the mean of `displacement`.

    Attributes:
        attack: `recipe_attack`.
        precision: of the products, see `matmul_precision`.
    """

    attack: DecoReco
    precision: str = "float32"

    def init(self, x_init: Tensor) -> State:
        """State at x_init (1, m, d); ReconError for shapes that do not fit."""
        state, columns = self.attack.init(x_init), self.attack.network.depth + 2
        trace = x_init.new_full((len(marks(self.attack.steps)), columns), torch.nan)
        return {
            **state,
            "accepted": {**state["accepted"], "x_init": x_init.clone(), "trace": trace},
        }

    def step(self, state: State) -> State:
        """One step, and a note where there is a mark."""
        x_init, trace = (state["accepted"][name] for name in ("x_init", "trace"))
        at, taken = marks(self.attack.steps), int(state["taken"]) + 1
        with matmul_precision(self.precision):
            after = self.attack.step(state)
            if taken in at:
                x = state["x"]["x"]
                by_layer, energy, *_ = self.attack.value_and_grad(x, state["multipliers"]["x"])
                trace = trace.clone()
                trace[at.index(taken)] = torch.cat(
                    [by_layer[0], energy, displacement(x, x_init).mean()[None]]
                )
        return {**after, "accepted": {**after["accepted"], "x_init": x_init, "trace": trace}}


def displacement(x: Tensor, x_init: Tensor) -> Tensor:
    """‖x_i − x_i(0)‖ / ‖x_i(0)‖ of candidates (..., m, d): (..., m), flattened over starts."""
    return ((x - x_init).norm(dim=-1) / x_init.norm(dim=-1).clamp_min(1e-12)).flatten()


@dataclass(frozen=True)
class PublishedSettings:
    """
    Attributes:
        m: candidates, as many as `x_init` where that is given.
        steps.
        init_scale: standard deviation of the starting images' pixels; by default that of run 1.
        precision: of the products.
        scaled: both step sizes times m / 1000. The multipliers enter as λ_i/m, so the gradient by
            an image is as 1/m, and the published steps, for m = 1000, are that much longer for
            fewer.
        run: of `RUNS`, whose init_scale is not taken over.
    """

    m: int
    steps: int = STEPS
    init_scale: float = TUNED_SCALE
    precision: str = "float32"
    scaled: bool = False
    run: int = 1


def recover_as_published(
    weights: Weights,
    settings: PublishedSettings,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
    x_init: Tensor | None = None,
) -> Reconstruction:
    """x ~ init_scale · N(0, 1) or x_init (m, d), labels −1 first; λ ~ U[0, 1). `accepted` holds λ
    (1, m) at the lowest energy, x_init (1, m, d) and the trace of `TracedRecipe`. ReconError for a
    run that is not in `RUNS`.
    """
    if settings.run not in RUNS:
        raise ReconError(
            f"there is no published run {settings.run}: choose one of {', '.join(map(str, RUNS))}"
        )
    theta_star = weights.theta_star
    m = settings.m if x_init is None else len(x_init)
    unit = torch.rand(1, m, generator=generator).to(theta_star)
    noise = settings.init_scale * torch.randn(1, m, weights.network.dim, generator=generator)
    start = noise.to(theta_star) if x_init is None else x_init[None].to(theta_star)
    scale = m / CANDIDATES if settings.scaled else 1.0
    _, step_x, *smooth = RUNS[settings.run]
    attack = recipe_attack(
        weights, unit, settings.steps, scale * step_x, scale * STEP_MULTIPLIERS, *smooth
    )
    run = TracedRecipe(attack, settings.precision)
    result = reconstruct(
        run, start, settings.steps, checkpoint=checkpoint, every_s=90.0, label="published recipe"
    )
    return replace(
        result, accepted={**result.accepted, "multipliers": m * result.accepted["multipliers"]}
    )
