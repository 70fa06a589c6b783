"""Under noise: what the gradient of one image says of it, by Gauss–Newton on all its entries and a Gaussian prior.

With N(0, σ²) on every entry of the gradient g and x ~ N(m, S), the image of maximum posterior probability minimises

    ‖g(x) − g‖²/σ² + (x − m)ᵀ S⁻¹ (x − m),

and is known up to (JᵀJ/σ² + S⁻¹)⁻¹, J = ∂(all gradients)/∂x; `recon.analysis.identifiability` has its diagonal for
S = v I.  An adversary who takes every pixel by itself has m = 0 (grey) and S = v I; one who has public photographs
takes their mean and covariance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.func import vjp

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import Normal, Solved, gauss_newton
from recon.errors import ReconError
from recon.released import Gradient

UNDAMPED = 1e-9  # of the mean diagonal: the prior keeps the system solvable
GAIN = 1e-8  # it stops once a step lowers the energy by less than this share


@dataclass(frozen=True)
class GaussianPrior:
    """x ~ N(mean, covariance).  mean (d,) · covariance (d, d), positive definite."""

    mean: Tensor
    covariance: Tensor

    @staticmethod
    def of(x: Tensor) -> GaussianPrior:
        """From public images x (n, …), n ≥ 2: their mean, and their covariance S shrunk to (1 − α) S + α (tr S/d) I.

        α is that of Ledoit & Wolf (2004), small where images are many.  ReconError for fewer than two.
        """
        from sklearn.covariance import ledoit_wolf

        if len(x) < 2:
            raise ReconError(f"a prior needs two images or more, not {len(x)}")
        flat = x.flatten(1).double()
        return GaussianPrior(flat.mean(0), torch.from_numpy(ledoit_wolf(flat.numpy())[0]))


@dataclass(frozen=True)
class NoisySystem:
    """(g(x)/σ, Lᵀx) = (g/σ, Lᵀm) with L Lᵀ = S⁻¹, in the sense of least squares.

    of: all entries of one noisy gradient · sigma: of N(0, σ²) on every entry · mean m (d,) · factor: L (d, d), or its
    diagonal (d,).
    """

    of: BatchSystem
    sigma: float
    mean: Tensor
    factor: Tensor

    @staticmethod
    def made(gradient: Gradient, sigma: float, prior: GaussianPrior | float) -> NoisySystem:
        """prior: a number v is N(0, v) on every pixel by itself.  ReconError unless σ and v are positive."""
        if not sigma > 0 or not (isinstance(prior, GaussianPrior) or prior > 0):
            raise ReconError(f"noise must be positive, and so must the prior's variance: noise {sigma} was given")
        system = BatchSystem.of(gradient, gradient.labels)
        if isinstance(prior, GaussianPrior):
            precision = torch.cholesky_inverse(torch.linalg.cholesky(prior.covariance))
            return NoisySystem(system, sigma, prior.mean, torch.linalg.cholesky(precision))
        grey = torch.zeros(math.prod(system.network.shape), dtype=torch.float64)
        return NoisySystem(system, sigma, grey, torch.full_like(grey, 1 / math.sqrt(prior)))

    @property
    def start(self) -> Tensor:
        """The mean image, (c·h·w,)."""
        return self.mean

    @property
    def target(self) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of.target / self.sigma, self._whitened(self.mean)])

    def __call__(self, x: Tensor) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of(x) / self.sigma, self._whitened(x)])

    def _whitened(self, x: Tensor) -> Tensor:
        return self.factor * x if self.factor.dim() == 1 else self.factor.mT @ x

    @cached_property
    def _precision(self) -> Tensor:
        """S⁻¹ (d, d), or its diagonal (d,)."""
        return self.factor.square() if self.factor.dim() == 1 else self.factor @ self.factor.mT

    def linear(self, x: Tensor) -> Normal:
        """By JᵀJ/σ² + S⁻¹, (c·h·w, c·h·w)."""
        gram = self.of.gram(x) / self.sigma**2
        (gram.diagonal() if self._precision.dim() == 1 else gram).add_(self._precision)
        _, pull, *_ = vjp(self, x)
        return Normal(gram, lambda residual: pull(residual)[0])


def map_estimate(gradient: Gradient, sigma: float, prior: GaussianPrior | float, steps: int = 15) -> Solved:
    """The image of maximum posterior probability (c·h·w,), by Gauss–Newton on `NoisySystem` from the prior's mean.
    ReconError as there."""
    system = NoisySystem.made(gradient, sigma, prior)
    return gauss_newton(system, steps=steps, tol=0.0, damping=UNDAMPED, gain=GAIN)
