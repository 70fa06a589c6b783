"""Descent on DecoReco's energy from given images, in all pixels, and whether a search had come to its end."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.analysis.landscape import StationarityAttack
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, tuned_attack
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace, reduced
from recon.released import Weights
from recon.training.kkt import certificate


def descend_in_pixels(
    weights: Weights,
    x_init: Tensor,
    spanning: list[Tensor],
    steps: int,
    descent: HeavyBall,
    layers: tuple[float, ...] | None = None,
) -> Tensor:
    """`steps` of descent on f(x) of `StationarityAttack` from x_init (S, n, d), θ* (p,); the images (S, n, d).

    spanning: tensors (k, d) whose rows span those of x_init · layers: ω.  The gradient of f is a combination of rows of
    W1 and of the images themselves, which enter f through Σ_i λ_i y_i δ_i x_iᵀ.  So nothing ever leaves the span of W1
    and the starts, and the descent in coordinates of that span is the one in all pixels.
    """
    space = Subspace.spanned_by(weights.params["w1"], *spanning)
    small, theta = reduced(weights.network, weights.theta_star, space)
    labels = half_and_half(x_init.shape[1], x_init.device, x_init.dtype)
    attack = StationarityAttack(Weights(small, theta), labels, descent, layers=layers)
    return space.lift(reconstruct(attack, space.reduce(x_init), steps, label="landscape").x_hat)


def further_fall(
    weights: Weights, x: Tensor, settings: RecoverSettings, steps: int, space: Subspace | None = None
) -> Tensor:
    """How much of what layer 1 has left `steps` of Adam still remove from R, images x (S, m, d); (S,).

    Both images and multipliers move, these from their best fit to x.  The same judge for every search, whatever its own
    step size: small steps do not look like an end.  No true image enters.  space: where a search stays within it.
    """
    labels = half_and_half(x.shape[1], x.device, x.dtype)
    multipliers = torch.stack([_fitted(weights, images, labels, settings) for images in x])
    floor = 1e-6 * multipliers.amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    attack, start = tuned_attack(weights, labels, torch.maximum(multipliers, floor), steps, settings), x
    if space is not None:
        attack, start = attack.restricted(space), space.reduce(x)
    by_layer, energy, _, _ = attack.value_and_grad(start, attack.multipliers_init)
    found = reconstruct(attack, start, steps, label="end?")
    return (energy - found.energy) / by_layer[:, 0]


def _fitted(weights: Weights, x: Tensor, labels: Tensor, settings: RecoverSettings) -> Tensor:
    """The best λ ≥ 0 (m,) for images x (m, d)."""
    found = certificate(
        *(weights.network, weights.theta_star, x, (labels + 1) / 2),
        alpha=settings.alpha,
        layer_weights=settings.layer_weights,
    )
    return found.multipliers.to(x)
