"""What differential privacy leaves to an adversary who knows all images but one: bounds on success and on error.

Success is to name the one of m equally likely candidates that was trained on: κ = 1/m by chance.
"""

from __future__ import annotations

import math
import warnings

import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest, norm

from recon.errors import ReconError

ORDERS = [1 + k / 10 for k in range(1, 100)] + list(range(12, 256))  # as chapter 17 has them


def success_bound(kappa: float, steps: int, noise: float) -> float:
    """Φ(Φ⁻¹(κ) + √T/σ): no attack on T full-batch steps of DP-SGD with noise multiplier σ succeeds more often (Hayes,
    Mahloujifar & Balle 2023, q = 1).

    >>> [round(success_bound(1 / 8, 100, sigma), 3) for sigma in (27, 10, 5)]
    [0.218, 0.44, 0.802]
    """
    if not 0 < kappa < 1 or steps < 1 or noise <= 0:
        raise ReconError(f"a bound needs 0 < κ < 1, steps and noise, not κ = {kappa}, T = {steps}, σ = {noise}")
    return float(norm.cdf(norm.ppf(kappa) + math.sqrt(steps) / noise))


def sampled_success_bound(
    kappa: float, steps: int, noise: float, rate: float, draws: int, generator: torch.Generator
) -> float:
    """The same for batches drawn with probability q = rate, by Monte Carlo: 1 − (1 − κ) · the mean of the smallest
    (1 − κ) share of likelihood ratios Π_t (1 − q + q exp((2 x_t − 1)/(2σ²))), x_t ~ N(0, σ²)."""
    x = noise * torch.randn(draws, steps, generator=generator, dtype=torch.float64)
    ratios = (1 - rate + rate * ((2 * x - 1) / (2 * noise**2)).exp()).log().sum(1).sort().values.exp()
    least = ratios[: int(draws * (1 - kappa))]
    return min(1.0, max(0.0, 1 - (1 - kappa) * least.mean().item()))


def orthogonal_success(candidates: int, steps: int, noise: float) -> float:
    """∫ φ(z) Φ(z + √T/σ)^{m−1} dz: how often the likeliest of m candidates is the right one, if their clipped gradients
    have full length and are at right angles to each other at every step.

    >>> orthogonal_success(2, 100, 5) < success_bound(1 / 2, 100, 5), round(orthogonal_success(8, 100, 5), 2)
    (True, 0.71)
    """
    shift = math.sqrt(steps) / noise
    return float(quad(lambda z: norm.pdf(z) * norm.cdf(z + shift) ** (candidates - 1), -12, 12)[0])


def advantage(success: float, kappa: float) -> float:
    """Reconstruction advantage of Guerra-Balboa et al. (2026): success on the image that was trained on less success on
    another one drawn from the same candidates, which for equally likely candidates is κ."""
    return success - kappa


def advantage_bound(kappa: float, steps: int, noise: float) -> float:
    """Their bound for equally likely candidates, (1 − κ) max_α [Φ(Φ⁻¹(α) + √T/σ) − α] over α ≤ κ/(1 − κ)."""
    shift = math.sqrt(steps) / noise
    gain = minimize_scalar(
        lambda alpha: alpha - norm.cdf(norm.ppf(alpha) + shift), bounds=(0, kappa / (1 - kappa)), method="bounded"
    )
    return float(-gain.fun * (1 - kappa))


def epsilon(noise: float, steps: int, delta: float = 1e-5, rate: float = 1.0) -> float:
    """ε at δ of that many steps, by Opacus' accountant for Rényi differential privacy (Mironov 2017)."""
    from opacus.accountants.analysis import rdp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the best order is the first or the last, where ε is huge anyway
        spent = rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=ORDERS)
        return float(rdp.get_privacy_spent(orders=ORDERS, rdp=spent, delta=delta)[0])


def epsilon_of_rho(rho: float, delta: float = 1e-5) -> float:
    """ρ + 2√(ρ log(1/δ)): what ρ-zCDP promises as (ε, δ) (Bun & Steinke 2016).

    >>> round(epsilon_of_rho(0.5), 1)
    5.3
    """
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def least_error(rho: float, dim: int) -> float:
    """exp(−2ρ/d): no attack on any ρ-zCDP mechanism has a smaller mean squared error, relative to E‖x‖², on x ~ N(0, I)
    (Cairney-Leeming, Bombari & Mondelli 2026, Theorem 1 with the entropy of a Gaussian)."""
    return math.exp(-2 * rho / dim)


def interval(successes: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's exact interval of a probability.

    >>> [round(end, 3) for end in interval(5, 10)]
    [0.187, 0.813]
    """
    found = binomtest(successes, runs).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


__all__ = [
    "ORDERS",
    "advantage",
    "advantage_bound",
    "epsilon",
    "epsilon_of_rho",
    "interval",
    "least_error",
    "orthogonal_success",
    "sampled_success_bound",
    "success_bound",
]
