"""Private linear regression by output perturbation: a clipped loss, an exact minimiser, Gaussian noise on its weights.

As Cairney-Leeming, Bombari & Mondelli (2026) have it, eqs. (5) to (8):

    θ* = argmin (1/n) Σ_i ℓ_C(x_iᵀθ − y_i) + (λ/2) ‖θ‖²,   θ̃ = θ* + N(0, σ² I),   σ² = 2 R² C² / (λ² ρ n²),

with Huber's loss ℓ_C, whose slope is the residual clipped to [−C, C], and ‖x_i‖ ≤ R.  θ̃ is ρ-zCDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError

DECREASE, SHORTEST = 1e-4, 1e-8  # of the line search


@dataclass(frozen=True)
class Perturbation:
    """decay: λ · clip: C, of residuals · radius: R, no image is longer.  All public.  ReconError unless positive."""

    decay: float
    clip: float
    radius: float

    def __post_init__(self) -> None:
        if min(self.decay, self.clip, self.radius) <= 0:
            raise ReconError("decay, clip and radius of output perturbation must be positive")

    def noise(self, n: int, rho: float) -> float:
        """σ of eq. (8) for n images and the budget ρ."""
        if n < 1 or rho <= 0:
            raise ReconError(f"noise needs images and a positive budget, not n = {n} and ρ = {rho}")
        return math.sqrt(2 / rho) * self.radius * self.clip / (self.decay * n)

    def slopes(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """ψ_C(x_iᵀθ − y_i), (n,): residuals clipped to [−C, C]."""
        return (x @ theta - y).clamp(-self.clip, self.clip)

    def gradient(self, theta: Tensor, x: Tensor, y: Tensor, n: int) -> Tensor:
        """Σ_i x_i ψ_i + nλθ (d,): n times the gradient of (6) over these images, with the decay of n of them."""
        return self.slopes(theta, x, y) @ x + n * self.decay * theta

    def curvature(self, theta: Tensor, x: Tensor, y: Tensor, n: int) -> Tensor:
        """Its derivative (d, d): Σ over the residuals that are not clipped of x xᵀ, plus nλI."""
        inside = x[(x @ theta - y).abs() <= self.clip]
        return inside.mT @ inside + n * self.decay * torch.eye(len(theta), dtype=x.dtype, device=x.device)

    def objective(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """n times (6)."""
        size = (x @ theta - y).abs()
        inside, outside = size.square() / 2, self.clip * size - self.clip**2 / 2
        return torch.where(size <= self.clip, inside, outside).sum() + len(x) * self.decay / 2 * theta @ theta


def train_huber(x: Tensor, y: Tensor, settings: Perturbation, steps: int = 100, tol: float = 1e-10) -> Tensor:
    """θ* (d,) of eq. (6) for images x (n, d) and labels y (n,), by Newton's method with halved steps.

    Stops at a gradient of norm tol·n.  ReconError for an image longer than R, or where it does not get there.
    """
    if x.norm(dim=1).max() > settings.radius * (1 + 1e-6):
        raise ReconError(f"an image is longer than the radius {settings.radius:g} that privacy is promised for")
    theta = torch.zeros_like(x[0])
    for _ in range(steps):
        gradient = settings.gradient(theta, x, y, len(x))
        if gradient.norm() <= tol * len(x):
            return theta
        step = torch.linalg.solve(settings.curvature(theta, x, y, len(x)), gradient)
        theta = _shortened(theta, step, gradient, x, y, settings)
    raise ReconError(f"training has not converged in {steps} steps of Newton's method")


def _shortened(theta: Tensor, step: Tensor, gradient: Tensor, x: Tensor, y: Tensor, settings: Perturbation) -> Tensor:
    """θ less the step, or half of it, and so on, until the objective falls as it should."""
    size, before = 1.0, settings.objective(theta, x, y)
    while size > SHORTEST:
        moved = theta - size * step
        if settings.objective(moved, x, y) <= before - DECREASE * size * (gradient @ step):
            return moved
        size /= 2
    return theta - step  # within rounding of the minimum the objective says nothing


__all__ = ["Perturbation", "train_huber"]
