"""Under noise: what the gradient of one image says of it, by Gauss–Newton on all its entries.

With N(0, σ²) on every entry of the gradient and N(0, prior) on every pixel, the image is known up to the covariance
(JᵀJ/σ² + I/prior)⁻¹ of the linear model, J = ∂(all gradients)/∂x; `recon.analysis.identifiability` has its diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vjp

from recon.attacks.gauss_newton import Solved, by_columns
from recon.errors import ReconError
from recon.nets.conv import cross_entropy_direction
from recon.released import Gradient


def gradient_gram(gradient: Gradient, x: Tensor) -> Tensor:
    """JᵀJ (c·h·w, c·h·w), J = ∂(all gradients of one image)/∂x at x (c·h·w,).

    No row of the fully connected layer is formed: ∇_W ℓ = δfᵀ has

        ⟨∂_a(δfᵀ), ∂_b(δfᵀ)⟩ = ‖f‖² ∂_aδ·∂_bδ + ‖δ‖² ∂_af·∂_bf + (δ·∂_aδ)(f·∂_bf) + (δ·∂_bδ)(f·∂_af).
    """
    network = gradient.network
    theta = {name: value.double() for name, value in gradient.theta.items()}
    x = x.double().flatten()

    def passes(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *convolutions, last = network.layers(
            theta, image.view(1, *network.shape), cross_entropy_direction(gradient.labels)
        )
        shared = [(layer.delta[0] @ layer.input[0].mT).flatten() for layer in convolutions]
        return last.input[0], last.delta[0], torch.cat(shared) if shared else image.new_zeros(0)

    features, delta, _ = passes(x)
    df, dd, dg = by_columns(passes, x)
    along_f, along_d = df @ features, dd @ delta
    last = features.square().sum() * (dd @ dd.mT) + delta.square().sum() * (df @ df.mT)
    last = last + torch.outer(along_d, along_f) + torch.outer(along_f, along_d)
    return last + dd @ dd.mT + dg @ dg.mT


def whole_gradient(gradient: Gradient) -> Callable[[Tensor], Tensor]:
    """x (c·h·w,) -> all gradients of one image as one vector (p,), in the network and for the label of `gradient`."""
    network = gradient.network
    theta = {name: value.double() for name, value in gradient.theta.items()}

    def flat(image: Tensor) -> Tensor:
        found = network.gradients(theta, image.view(1, *network.shape), gradient.labels)
        return torch.cat([each.flatten() for each in found.values()])

    return flat


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
    model = whole_gradient(gradient)
    target = torch.cat([each.double().flatten() for each in gradient.gradients.values()])
    size = math.prod(gradient.network.shape)
    x = torch.zeros(size, dtype=torch.float64) if x_init is None else x_init.double().flatten()

    def energy(point: Tensor) -> Tensor:
        return (model(point) - target).square().sum() / sigma**2 + point.square().sum() / prior

    energies = [energy(x)]
    for _ in range(steps):
        value, back, *_ = vjp(model, x)
        slope = back(value - target)[0] / sigma**2 + x / prior
        curvature = gradient_gram(gradient, x) / sigma**2
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


__all__ = ["gradient_gram", "most_probable", "whole_gradient"]
