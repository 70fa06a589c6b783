"""What one gradient determines: layer by layer, as Chen & Campbell (2022) have it, and of the image
itself.

Layer by layer: the rank of each system U x = V (7), and the security metric c(M) (12), §3.3.
Together: the rank of the joint Jacobian ∂h/∂x of `recon.attacks.gradient_system`, the entries of
the image that it reads, and how well each is known under noise. An adversary can compute all of it
at an image of their own that has the gradient.
"""

from dataclasses import dataclass

import scipy.linalg
import torch
from torch import Tensor

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import row_space
from recon.attacks.gradient_system import JointSystem
from recon.attacks.rgap import Stacked, all_above
from recon.released import Gradient


def rank_deficiency(system: Stacked) -> int:
    """Numerical rank − unknowns ≤ 0, "rd" of Table 1. The rank: eigenvalues of the smaller Gram
    matrix above τ = ε · trace, ε = 2.2e-16. So singular values count down to √τ, about 1e-6 of the
    largest. If Gram − τI has a Cholesky factor they all do; else they are computed, by a dense
    eigensolver on at most min(rows, unknowns).
    """
    gram = system.gram()
    full, threshold = all_above(gram)
    rank = len(gram) if full else int((scipy.linalg.eigvalsh(gram) > threshold).sum())
    return rank - system.shape[1]


def security_metric(deficiencies: list[int]) -> int:
    """Eq. (12): c(M) = Σ_i (d − i + 1)/d · rd_i ≤ 0, larger is less secure; terms rounded half to
    even, as printed.

    >>> security_metric([0, -4533])  # CNN3 V1 of Table 1
    -2266
    """
    d = len(deficiencies)
    return sum(round((d - i) / d * deficiency) for i, deficiency in enumerate(deficiencies))


@dataclass(frozen=True)
class Determined:
    """What a gradient fixes of an image, to first order, at that image.

    Attributes:
        rank: of the joint Jacobian, as `row_space` counts it.
        deficiency: rank − unknowns ≤ 0.
        unread: entries (c·h·w,) that no equation reads.
    """

    rank: int
    deficiency: int
    unread: Tensor

    @property
    def whole(self) -> bool:
        """Whether all that is read is fixed: nothing is missing but entries that do not matter to
        the gradient.
        """
        return self.deficiency == -int(self.unread.sum())


def determined(system: JointSystem, x: Tensor) -> Determined:
    """At an image x (c·h·w,) that solves the system.  One of depth 0 fixes everything."""
    if system.depth == 0:
        return Determined(system.unknowns, 0, torch.zeros(system.unknowns, dtype=torch.bool))
    jacobian = system.jacobian(x.double())
    rank = row_space(jacobian).shape[1]
    return Determined(rank, rank - jacobian.shape[1], (jacobian == 0).all(0))


def posterior_variance(gradient: Gradient, x: Tensor, sigma: float, prior: float = 1.0) -> Tensor:
    """Variance of each entry of the image (c·h·w,), given its gradient with noise N(0, σ²) on every
    entry. By the linear model at x (c·h·w,): diag((JᵀJ/σ² + I/prior)⁻¹), J the Jacobian of the
    whole gradient · prior: variance of an entry before the gradient is seen, 1/12 for U(0, 1).
    """
    precision = BatchSystem.of(gradient, gradient.labels).gram(x) / sigma**2
    precision.diagonal().add_(1 / prior)
    return torch.cholesky_inverse(torch.linalg.cholesky(precision)).diagonal()
