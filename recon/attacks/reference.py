"""The public reference recipe of Haim et al. (2022) and Buzaglo et al. (2023), from published facts, to compare with.

Stochastic gradient descent with momentum 0.9 on images and multipliers, all layers, the objective with coefficients
λ_i/m, penalties for pixels beyond [−1, 1] and for λ_i < λ_min.  Its published values (CIFAR-10, binary, run 1) were
found by random search with the true images.  Its step size is for its own network; on another it may diverge, so here
the one with the lowest energy after a short run is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.decoreco import DecoReco, half_and_half
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.optim.descent import SGD
from recon.optim.loop import Checkpoint
from recon.released import Weights

ALPHA, LAMBDA_MIN, STEP_MULTIPLIERS, TUNED_SCALE = 19.14455, 0.498303, 1e-4, 8.857493e-4
STEP_SIZES = (0.5, 0.05, 0.005, 0.0005)


@dataclass(frozen=True)
class RecipeSettings:
    """m: candidates · steps · init_scale: standard deviation of the start's pixels · trial_steps: after which the step
    size with the lowest energy is chosen."""

    m: int
    steps: int
    init_scale: float
    trial_steps: int = 50


def recipe_attack(weights: Weights, labels: Tensor, unit: Tensor, steps: int, step_x: float) -> DecoReco:
    """The recipe as `DecoReco`; unit (1, m).  With c_i = λ_i/m, λ's step and penalty scale by 1/m² and m²."""
    m = len(labels)
    return DecoReco(
        *(weights, labels, unit / m, steps),
        multipliers="free",
        optimiser_x=SGD(step_x, 0.9),
        optimiser_multipliers=SGD(STEP_MULTIPLIERS / m**2, 0.9),
        alpha=ALPHA,
        final=1.0,
        box_weight=1.0,
        lambda_min=LAMBDA_MIN / m,
        lambda_weight=5.0 * m**2,
    )


def recover_by_recipe(
    weights: Weights,
    settings: RecipeSettings,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
    x_init: Tensor | None = None,
) -> tuple[Reconstruction, float]:
    """x ~ init_scale · N(0, 1) or x_init (m, d), λ ~ U[0, 1); (reconstruction (1, m, d), step size used)."""
    m, theta_star = settings.m, weights.theta_star
    labels = half_and_half(m, theta_star.device, theta_star.dtype)
    unit = torch.rand(1, m, generator=generator).to(theta_star)
    noise = settings.init_scale * torch.randn(1, m, weights.network.dim, generator=generator)
    start = noise.to(theta_star) if x_init is None else x_init[None]

    def run(step_x: float, count: int, checkpoint: Checkpoint | None = None) -> Reconstruction:
        attack = recipe_attack(weights, labels, unit, count, step_x)
        return reconstruct(attack, start, count, checkpoint=checkpoint, label="reference recipe")

    step_x = min(STEP_SIZES, key=lambda size: run(size, settings.trial_steps).energy.item())
    return run(step_x, settings.steps, checkpoint), step_x
