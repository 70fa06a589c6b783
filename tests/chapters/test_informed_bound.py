"""Chapter 20's bound on Gaussian images, by drawing them: what the best attack leaves is not below it, and near it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from recon.analysis.privacy_bounds import least_error

DIM, IMAGES = 2000, 100
RADIUS = math.sqrt(DIM * (1 + 4 * math.sqrt(2 / DIM)))  # no image drawn is longer: nothing is clipped


def drawn(ratio: float) -> tuple[float, float]:
    """Relative mean squared error of the posterior mean, and the bound, at ρ/d = ratio.

    Released is the image with noise.  Without the image it is noise alone, so that ρ = R²/(2σ²).
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(IMAGES, DIM, generator=generator, dtype=torch.float64)
    assert x.norm(dim=1).max() <= RADIUS
    rho = ratio * DIM
    variance = RADIUS**2 / (2 * rho)
    released = x + math.sqrt(variance) * torch.randn(IMAGES, DIM, generator=generator, dtype=torch.float64)
    x_hat = released / (1 + variance)
    return ((x_hat - x).square().sum() / x.square().sum()).item(), least_error(rho, DIM)


@pytest.mark.parametrize("ratio", [0.02, 0.05, 0.2, 1.0, 3.0])
def test_the_best_attack_is_not_below_the_bound(ratio):
    error, bound = drawn(ratio)
    assert error >= bound


def test_at_small_budgets_the_bound_is_nearly_reached():
    """A bound twice as far from 1 would hold, too, and say less."""
    error, bound = drawn(0.05)
    assert 0.8 * (1 - bound) < 1 - error <= 1 - bound


def test_the_median_of_another_measure_on_images_near_each_other_crosses_it():
    """As on the map of knowing: 1 − cos² of a guess that saw nothing, where few directions carry most of an image."""
    generator = torch.Generator().manual_seed(0)
    scales = 1 / torch.arange(1, 49, dtype=torch.float64)
    x, guess = (scales * torch.randn(500, 48, generator=generator, dtype=torch.float64) for _ in range(2))
    off = 1 - F.cosine_similarity(x, guess).square()
    assert off.median() < least_error(0.01, 1) < (x - guess).square().sum() / x.square().sum()
