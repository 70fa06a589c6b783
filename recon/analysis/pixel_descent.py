"""Descent on DecoReco's energy from given images, in all pixels: what the landscape does to a start."""

from __future__ import annotations

from torch import Tensor

from recon.analysis.landscape import StationarityAttack
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace, reduced
from recon.released import Weights


def descend_in_pixels(
    weights: Weights, x_init: Tensor, spanning: list[Tensor], steps: int, descent: HeavyBall
) -> Tensor:
    """`steps` of descent on f(x) of `StationarityAttack` from x_init (S, n, d), θ* (p,); the images (S, n, d).

    spanning: tensors (k, d) whose rows span those of x_init.  The gradient of f is a combination of rows of W1 and of
    the images themselves, which enter f through Σ_i λ_i y_i δ_i x_iᵀ.  So nothing ever leaves the span of W1 and the
    starts, and the descent in coordinates of that span is the one in all pixels.
    """
    space = Subspace.spanned_by(weights.params["w1"], *spanning)
    small, theta = reduced(weights.network, weights.theta_star, space)
    labels = half_and_half(x_init.shape[1], x_init.device, x_init.dtype)
    attack = StationarityAttack(Weights(small, theta), labels, descent)
    return space.lift(reconstruct(attack, space.reduce(x_init), steps, label="landscape").x_hat)
