"""All images but one, and weights with noise: a direction, its error, and what a prior on images adds.

What the known images leave of the gradient at the released θ̃ is, up to its sign, the missing image and noise,

    −F₋(θ̃) = a x + w,   a = ψ_C(xᵀθ* − y),   w ≈ −H b ~ N(0, σ² H²),          (eqs. 12 to 14 of Cairney-Leeming et al.)

with the curvature H of the known images: all of w but its draw is known to the adversary, and so is how far the
direction F₋(θ̃) is off.  With a prior x ~ N(m_y, S) for each label y the image has a posterior, in closed form for each
value of a; −a and the other label go together, and there are few values of a to be weighed against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.training.huber import Perturbation

SHARES = (1.0, 0.5, 0.25, 0.125)  # of C: what |a| may be; it is C wherever the residual is clipped


@dataclass(frozen=True)
class Release:
    """θ̃ (d,) of n images, and σ, the standard deviation of the noise on it."""

    theta: Tensor
    settings: Perturbation
    n: int
    noise: float


@dataclass(frozen=True)
class Leftover:
    """toward (d,): −F₋(θ̃) · curvature (d, d): H · clipped: chance that a residual is, by the known ones and Laplace's
    rule, so never 0 or 1."""

    toward: Tensor
    curvature: Tensor
    clipped: float


@dataclass(frozen=True)
class Read:
    """x_hat (d,): the image · error: expected 1 − cos² of its angle with the true one, by the adversary, in [0, 1] ·
    label: probability that y = +1; None where the attack does not ask."""

    x_hat: Tensor
    error: float
    label: float | None = None


@dataclass(frozen=True)
class ImagePrior:
    """x ~ N(means[0 or 1], covariance) for y = −1 and +1: means (2, d), covariance (d, d)."""

    means: Tensor
    covariance: Tensor

    @staticmethod
    def of(x: Tensor, y: Tensor, shrinkage: float = 0.05) -> ImagePrior:
        """From images x (k, d) of the adversary's own with labels y (k,) in {−1, 1}: the mean of each class, and their
        common covariance, shrunk towards a multiple of the identity by this share."""
        if not ((y == 1).any() and (y == -1).any()):
            raise ReconError("a prior needs images of both labels")
        means = torch.stack([x[y == label].mean(0) for label in (-1, 1)])
        rest = x - means[(y > 0).long()]
        sample = rest.mT @ rest / len(x)
        flat = sample.trace() / len(sample) * torch.eye(len(sample), dtype=x.dtype, device=x.device)
        return ImagePrior(means, (1 - shrinkage) * sample + shrinkage * flat)


def leftover(release: Release, x: Tensor, y: Tensor) -> Leftover:
    """What the known images x (n − 1, d) with labels y (n − 1,) in {−1, 1} leave, eq. (12)."""
    if len(x) != release.n - 1:
        raise ReconError(f"{release.n - 1} images must be known, not {len(x)}")
    settings = release.settings
    clipped = int((settings.slopes(release.theta, x, y).abs() >= settings.clip).sum())
    return Leftover(
        -settings.gradient(release.theta, x, y, release.n),
        settings.curvature(release.theta, x, y, release.n),
        (clipped + 1) / (len(x) + 2),
    )


def direction(release: Release, left: Leftover) -> Read:
    """Eq. (14): x̂ = R F₋/‖F₋‖, of unknown sign.  Its error is E‖w‖²/‖F₋‖² at most 1, with E‖w‖² = σ² tr H²."""
    size = left.toward.norm()
    noise = release.noise**2 * left.curvature.square().sum() / size**2
    return Read(release.settings.radius * left.toward / size, noise.clamp(max=1).item())


def with_prior(release: Release, left: Leftover, prior: ImagePrior) -> Read:
    """The most probable image under the prior, weighing both labels and every |a| = C·`SHARES`.

    In units of the noise, by the factor (σH)⁻¹, every posterior is diagonal in one basis.  ReconError without noise.
    """
    if release.noise <= 0:
        raise ReconError("without noise the direction is exact: use `direction`")
    basis = _Whitened.of(left, prior, release.noise)
    found = []
    for label in (-1.0, 1.0):
        for share in SHARES:
            weight = left.clipped if share == 1 else (1 - left.clipped) / (len(SHARES) - 1)  # |a| = C if clipped
            found.append((label, *basis.posterior(-label * share * release.settings.clip, label, weight)))
    labels, evidence, images, spreads = zip(*found, strict=True)
    chance = torch.stack(evidence).softmax(0)
    best = images[int(chance.argmax())]
    errors = torch.stack([s / (s + x.square().sum()) for x, s in zip(images, spreads, strict=True)])
    return Read(best, (chance @ errors).item(), chance[torch.tensor(labels) > 0].sum().item())


@dataclass(frozen=True)
class _Whitened:
    """seen (d,): the leftover · means (2, d) · values (d,): of the covariance, all in units of the noise and in the
    covariance's eigenvectors there · back (d, d): from there to images · trace: of the covariance of images."""

    seen: Tensor
    means: Tensor
    values: Tensor
    back: Tensor
    prior: ImagePrior

    @staticmethod
    def of(left: Leftover, prior: ImagePrior, noise: float) -> _Whitened:
        half = torch.linalg.solve(left.curvature, prior.covariance) / noise  # (σH)⁻¹ S
        values, vectors = torch.linalg.eigh(torch.linalg.solve(left.curvature, half.mT) / noise)
        rows = torch.linalg.solve(left.curvature, torch.cat([left.toward[None], prior.means]).mT).mT / noise @ vectors
        return _Whitened(rows[0], rows[1:], values.clamp_min(0), half.mT @ vectors, prior)

    def posterior(self, a: float, label: float, weight: float) -> tuple[Tensor, Tensor, Tensor]:
        """(log evidence, mean (d,), trace of the covariance) for one value of a and its label."""
        side = int(label > 0)
        spread, rest = a**2 * self.values + 1, self.seen - a * self.means[side]
        evidence = math.log(weight) - 0.5 * (rest.square() / spread + spread.log()).sum()
        mean = self.prior.means[side] + a * self.back @ (rest / spread)
        known = a**2 * (self.back.square() / spread).sum()
        return evidence, mean, self.prior.covariance.trace() - known


__all__ = ["SHARES", "ImagePrior", "Leftover", "Read", "Release", "direction", "leftover", "with_prior"]
