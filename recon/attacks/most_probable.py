"""Under noise: what the gradient of one image says of it, by Gauss–Newton on all its entries.

With N(0, σ²) on every entry of the gradient and N(0, prior) on every pixel, the image is known up to the covariance
(JᵀJ/σ² + I/prior)⁻¹ of the linear model, J = ∂(all gradients)/∂x; `recon.analysis.identifiability` has its diagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vjp

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import Normal, Solved, gauss_newton
from recon.errors import ReconError
from recon.released import Gradient

UNDAMPED = 1e-9  # of the mean diagonal: the prior keeps the system solvable
GAIN = 1e-8  # it stops once a step lowers the energy by less than this share


def gradient_gram(gradient: Gradient, x: Tensor) -> Tensor:
    """JᵀJ (c·h·w, c·h·w), J = ∂(all gradients of one image)/∂x at x (c·h·w,); see `recon.attacks.batches`."""
    return BatchSystem.of(gradient, gradient.labels).gram(x)


@dataclass(frozen=True)
class NoisySystem:
    """(g(x)/σ, x/√prior) = (g/σ, 0), in the sense of least squares.

    of: all entries of one noisy gradient · sigma: of N(0, σ²) on every entry · prior: variance of every entry of the
    image.
    """

    of: BatchSystem
    sigma: float
    prior: float

    @property
    def start(self) -> Tensor:
        """Grey, (c·h·w,)."""
        return torch.zeros(math.prod(self.of.network.shape), dtype=torch.float64)

    @property
    def target(self) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of.target / self.sigma, self.start])

    def __call__(self, x: Tensor) -> Tensor:
        """(p + c·h·w,)."""
        return torch.cat([self.of(x) / self.sigma, x / math.sqrt(self.prior)])

    def linear(self, x: Tensor) -> Normal:
        """By JᵀJ/σ² + I/prior."""
        gram = self.of.gram(x) / self.sigma**2
        gram.diagonal().add_(1 / self.prior)
        _, pull, *_ = vjp(self, x)
        return Normal(gram, lambda residual: pull(residual)[0])


def most_probable(
    gradient: Gradient, sigma: float, prior: float = 1.0, x_init: Tensor | None = None, steps: int = 15
) -> Solved:
    """The image that is most probable given its gradient with noise N(0, σ²) on every entry, and N(0, prior) on pixels:

        min_x ‖g(x) − g‖²/σ² + ‖x‖²/prior,

    by Gauss–Newton on `NoisySystem`, from x_init (c·h·w,), default grey.  energy: of that sum.  ReconError unless σ > 0
    and prior > 0.
    """
    if not (sigma > 0 and prior > 0):
        raise ReconError(f"noise and prior must be positive, not {sigma} and {prior}")
    system = NoisySystem(BatchSystem.of(gradient, gradient.labels), sigma, prior)
    return gauss_newton(system, x_init, steps, tol=0.0, damping=UNDAMPED, gain=GAIN)


__all__ = ["NoisySystem", "gradient_gram", "most_probable"]
