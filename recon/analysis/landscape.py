"""Energy landscapes, §4.5 of Runkel et al. (2024): many starts between truth, other images and
noise, as one batch.

    x_init = λ₂ (λ₁ x_truth + (1 − λ₁) x_partition) + (1 − λ₂) x_random  (10)

For the affine net all of the bilevel problem happens in the span of the images and θ*: with X̄ the
images with a 1 appended, θ(x) and p = [∇²E]⁻¹∇l of eq. (7) are combinations of the rows of X̄ and
of θ*, and so is every step of every image. In n + 1 coordinates instead of d = 3072 pixels the
batch of all starts fits into the cache. That is exact as long as no pixel box cuts in; the paper
has none.
"""

from dataclasses import replace

from torch import Tensor

from recon.attacks.bilevel import BilevelAttack, outer_energy
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.errors import ReconError
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace, reduced
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine


def mixed_starts(
    truth: Tensor, partition: Tensor, random: Tensor, lambda1: Tensor, lambda2: Tensor
) -> Tensor:
    """Eq. (10) for all pairs of λ₁ (a,) and λ₂ (b,): images (..., n, d) -> starts (..., a, b, n,
    d).
    """
    if not truth.shape == partition.shape == random.shape:
        raise ReconError("the three sets must have one shape")
    share, strength = lambda1.to(truth)[:, None, None, None], lambda2.to(truth)[:, None, None]
    a, b, noise = (images[..., None, None, :, :] for images in (truth, partition, random))
    return strength * (share * a + (1 - share) * b) + (1 - strength) * noise


def in_span(released: Weights, space: Subspace) -> Weights:
    """The affine bilevel problem in coordinates of the subspace; exact if it holds start and θ*.
    theta_star (p,) or (S, p), the subspace's basis (r, d) or (S, r, d). ReconError for any other
    network.
    """
    if released.network.depth != 1:
        raise ReconError(
            "only the affine net's bilevel problem stays in the span of its images and θ*"
        )
    network, theta = reduced(released.network, released.theta_star, space)
    return replace(released, network=network, theta_star=theta, theta_init=None)


def sweep_bilevel(
    released: Weights, x_init: Tensor, steps: int, descent: HeavyBall
) -> Reconstruction:
    """All starts x_init (S, n, d) of an affine net at once, θ* (p,) or one per start (S, p). Each
    start descends in its own n + 1 coordinates.
    """
    if descent.box is not None:
        raise ReconError("a pixel box does not fit into the coordinates of the span: leave it out")
    theta = released.theta_star.expand(len(x_init), -1)
    space = Subspace.spanned_by(x_init, theta[:, None, :-1], dtype=x_init.dtype)
    small = in_span(replace(released, theta_star=theta, theta_init=None), space)
    attack = BilevelAttack(small, descent)
    ends = reconstruct(attack, space.reduce(x_init), steps, descent.tol, label="landscape")
    return replace(ends, x_hat=space.lift(ends.x_hat))


def bilevel_energy(released: Weights, x: Tensor) -> Tensor:
    """‖θ* − θ(x)‖² / ‖θ*‖² of affine nets retrained on x (S, n, r); (S,)."""
    theta = solve_affine(Objective.of(released), x).theta
    return outer_energy(released.theta_star, theta) / released.theta_star.square().sum(-1)
