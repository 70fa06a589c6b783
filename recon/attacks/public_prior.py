"""Under noise, by an adversary who knows photographs: mean and covariance of public ones in place of grey.

With N(0, σ²) on every entry of the gradient g and x ~ N(m, S), the most probable image minimises

    ‖g(x) − g‖²/σ² + (x − m)ᵀ S⁻¹ (x − m),

and is known up to (JᵀJ/σ² + S⁻¹)⁻¹, J = ∂(all gradients)/∂x.  With m = 0 and S = v I it is the image of
`recon.attacks.most_probable`, whose adversary takes every pixel by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vjp

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import Normal, Solved, gauss_newton
from recon.attacks.most_probable import GAIN, UNDAMPED
from recon.errors import ReconError
from recon.released import Gradient


@dataclass(frozen=True)
class PublicPrior:
    """x ~ N(mean, covariance).  mean (d,) · covariance (d, d), positive definite · n: images it was estimated from ·
    shrinkage: share of a multiple of the identity in it, in [0, 1]."""

    mean: Tensor
    covariance: Tensor
    n: int
    shrinkage: float

    @staticmethod
    def of(x: Tensor) -> PublicPrior:
        """From public images x (n, …), n ≥ 2: their mean, and their covariance S shrunk to (1 − α) S + α (tr S/d) I.

        α is that of Ledoit & Wolf (2004), small where images are many.  ReconError for fewer than two.
        """
        from sklearn.covariance import ledoit_wolf

        if len(x) < 2:
            raise ReconError(f"a prior needs two images or more, not {len(x)}")
        flat = x.flatten(1).double()
        covariance, shrinkage = ledoit_wolf(flat.numpy())
        return PublicPrior(flat.mean(0), torch.from_numpy(covariance), len(flat), float(shrinkage))


@dataclass(frozen=True)
class PublicSystem:
    """(g(x)/σ, Lᵀx) = (g/σ, Lᵀm) with L Lᵀ = S⁻¹, in the sense of least squares.

    of: all entries of one noisy gradient · sigma: of N(0, σ²) on every entry.
    """

    of: BatchSystem
    sigma: float
    mean: Tensor
    precision: Tensor
    factor: Tensor

    @staticmethod
    def made(gradient: Gradient, sigma: float, prior: PublicPrior) -> PublicSystem:
        """ReconError unless σ > 0."""
        if not sigma > 0:
            raise ReconError(f"noise must be positive, not {sigma}")
        precision = torch.cholesky_inverse(torch.linalg.cholesky(prior.covariance))
        system = BatchSystem.of(gradient, gradient.labels)
        return PublicSystem(system, sigma, prior.mean, precision, torch.linalg.cholesky(precision))

    @property
    def start(self) -> Tensor:
        """The mean image, (c·h·w,)."""
        return self.mean

    @property
    def target(self) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of.target / self.sigma, self.factor.mT @ self.mean])

    def __call__(self, x: Tensor) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of(x) / self.sigma, self.factor.mT @ x])

    def known(self, x: Tensor) -> Tensor:
        """JᵀJ/σ² + S⁻¹, (c·h·w, c·h·w)."""
        return self.of.gram(x) / self.sigma**2 + self.precision

    def linear(self, x: Tensor) -> Normal:
        """By that matrix."""
        _, pull, *_ = vjp(self, x)
        return Normal(self.known(x), lambda residual: pull(residual)[0])


@dataclass(frozen=True)
class Guess:
    """x (c·h·w,): the most probable image · variance (c·h·w,): of each of its entries, by the adversary."""

    x: Tensor
    variance: Tensor
    solved: Solved


def most_probable_photograph(gradient: Gradient, sigma: float, prior: PublicPrior, steps: int = 15) -> Guess:
    """By Gauss–Newton on `PublicSystem` from the mean image; the variance is the diagonal of (JᵀJ/σ² + S⁻¹)⁻¹ there.

    ReconError unless σ > 0.
    """
    system = PublicSystem.made(gradient, sigma, prior)
    solved = gauss_newton(system, None, steps, tol=0.0, damping=UNDAMPED, gain=GAIN)
    factor = torch.linalg.cholesky(system.known(solved.x))
    return Guess(solved.x, torch.cholesky_inverse(factor).diagonal(), solved)


__all__ = ["Guess", "PublicPrior", "PublicSystem", "most_probable_photograph"]
