"""Bounds on success: their published values, the same by simulation, and chapter 17's accountant."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from recon.analysis.privacy_bounds import (
    advantage,
    advantage_bound,
    epsilon,
    epsilon_of_rho,
    interval,
    least_error,
    orthogonal_success,
    sampled_success_bound,
    success_bound,
)
from recon.chapters.leakage_defences.compute import privacy
from recon.errors import ReconError

PUBLISHED = {27.0: 0.218, 10.0: 0.440, 5.0: 0.802}  # T = 100, κ = 1/8, q = 1


@pytest.mark.parametrize("sigma", PUBLISHED)
def test_the_bound_is_the_published_one(sigma):
    assert success_bound(1 / 8, 100, sigma) == pytest.approx(PUBLISHED[sigma], abs=5e-4)
    drawn = sampled_success_bound(1 / 8, 100, sigma, 1.0, 20_000, torch.Generator().manual_seed(0))
    assert drawn == pytest.approx(success_bound(1 / 8, 100, sigma), abs=0.02)


def test_it_is_the_power_of_the_best_test():
    """With m candidates of which the adversary may name a share κ of all outcomes: Neyman and Pearson's lemma."""
    generator = torch.Generator().manual_seed(0)
    shift = math.sqrt(100) / 5
    null, real = torch.randn(200_000, generator=generator), torch.randn(200_000, generator=generator) + shift
    threshold = null.quantile(1 - 1 / 8)
    assert (real > threshold).float().mean().item() == pytest.approx(success_bound(1 / 8, 100, 5), abs=0.01)


def test_smaller_batches_and_more_noise_lower_it():
    generator = torch.Generator().manual_seed(0)
    assert sampled_success_bound(1 / 8, 100, 5, 0.1, 20_000, generator) < success_bound(1 / 8, 100, 5) - 0.3
    values = [success_bound(1 / 8, 100, sigma) for sigma in (1, 5, 27, 1e6)]
    assert values == sorted(values, reverse=True) and values[-1] == pytest.approx(1 / 8, abs=1e-4)


def test_right_angles_are_what_a_simulation_gives():
    generator = torch.Generator().manual_seed(0)
    for sigma in (10.0, 5.0):
        scores = torch.randn(100_000, 8, generator=generator)
        scores[:, 0] += math.sqrt(100) / sigma
        found = (scores.argmax(1) == 0).float().mean().item()
        assert orthogonal_success(8, 100, sigma) == pytest.approx(found, abs=5e-3)
        assert 1 / 8 < orthogonal_success(8, 100, sigma) < success_bound(1 / 8, 100, sigma)


def test_the_advantage_has_a_bound_of_its_own():
    """On a grid; and it is below what success and chance bound together."""
    for sigma in (27.0, 5.0):
        shift = math.sqrt(100) / sigma
        alphas = np.linspace(1e-6, (1 / 8) / (7 / 8), 20_000)
        best = (norm.cdf(norm.ppf(alphas) + shift) - alphas).max() * 7 / 8
        assert advantage_bound(1 / 8, 100, sigma) == pytest.approx(best, abs=1e-4)
        assert advantage_bound(1 / 8, 100, sigma) <= success_bound(1 / 8, 100, sigma) - 1 / 8
    assert advantage(0.5, 1 / 8) == 0.375


def test_epsilon_is_that_of_chapter_17():
    assert epsilon(0.3, 1) == pytest.approx(privacy(0.3).once)
    assert epsilon(0.3, 10_000, rate=256 / 50_000) == pytest.approx(privacy(0.3).training)
    assert epsilon(27, 100) == pytest.approx(1.56, abs=0.02)  # as Guerra-Balboa et al. have it for this σ


def test_budgets():
    assert epsilon_of_rho(1.0, 1e-5) == pytest.approx(1 + 2 * math.sqrt(math.log(1e5)))
    assert least_error(0.0, 10) == 1.0 and least_error(10.0, 10) == pytest.approx(math.exp(-2))


def test_the_interval_holds_what_it_should():
    low, high = interval(30, 100)
    assert low < 0.3 < high and interval(30, 100, 0.99)[0] < low
    assert interval(0, 10)[0] == 0 and interval(10, 10)[1] == 1


@pytest.mark.parametrize("bad", [(0.0, 100, 5.0), (0.5, 0, 5.0), (0.5, 100, 0.0)])
def test_bad_input_is_one_sentence(bad):
    with pytest.raises(ReconError, match="a bound needs"):
        success_bound(*bad)
