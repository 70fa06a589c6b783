"""Under noise: what the gradient of one image says of it, by Gauss–Newton on all its entries.

With N(0, σ²) on every entry of the gradient and N(0, prior) on every pixel, the image is known up to the covariance
(JᵀJ/σ² + I/prior)⁻¹ of the linear model, J = ∂(all gradients)/∂x; `recon.analysis.identifiability` has its diagonal.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.func import vjp

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import Solved
from recon.errors import ReconError
from recon.released import Gradient


def gradient_gram(gradient: Gradient, x: Tensor) -> Tensor:
    """JᵀJ (c·h·w, c·h·w), J = ∂(all gradients of one image)/∂x at x (c·h·w,); see `recon.attacks.batches`."""
    return BatchSystem.of(gradient, gradient.labels).gram(x)


def most_probable(
    gradient: Gradient, sigma: float, prior: float = 1.0, x_init: Tensor | None = None, steps: int = 15
) -> Solved:
    """The image that is most probable given its gradient with noise N(0, σ²) on every entry, and N(0, prior) on pixels:

        min_x ‖g(x) − g‖²/σ² + ‖x‖²/prior,

    by Gauss–Newton with halved steps, from x_init (c·h·w,), default grey.  energy: of that sum.  ReconError unless
    σ > 0 and prior > 0.
    """
    if not (sigma > 0 and prior > 0):
        raise ReconError(f"noise and prior must be positive, not {sigma} and {prior}")
    model = BatchSystem.of(gradient, gradient.labels)
    target = model.target
    size = math.prod(gradient.network.shape)
    x = torch.zeros(size, dtype=torch.float64) if x_init is None else x_init.double().flatten()

    def energy(point: Tensor) -> Tensor:
        return (model(point) - target).square().sum() / sigma**2 + point.square().sum() / prior

    energies = [energy(x)]
    for _ in range(steps):
        value, back, *_ = vjp(model, x)
        slope = back(value - target)[0] / sigma**2 + x / prior
        curvature = model.gram(x) / sigma**2
        curvature.diagonal().add_(1 / prior)
        step = torch.cholesky_solve(slope[:, None], torch.linalg.cholesky(curvature))[:, 0]
        for share in (1.0, 0.5, 0.25, 0.1, 0.01):
            lower = energy(x - share * step)
            if lower < energies[-1]:
                break
        else:
            break
        x = x - share * step
        energies.append(lower)
        if energies[-2] - energies[-1] <= 1e-8 * energies[-2]:
            break
    return Solved(x, torch.stack(energies))


__all__ = ["gradient_gram", "most_probable"]
