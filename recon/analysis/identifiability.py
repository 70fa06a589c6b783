"""What one gradient determines: layer by layer, as Chen & Campbell (2022) have it, and of the image itself.

Layer by layer: the rank of each system U x = V (7), and the security metric c(M) (12), §3.3.  Together: the rank of the
joint Jacobian ∂h/∂x of `recon.attacks.gradient_system`, the entries of the image that it fixes, and how well each is
known under noise.  An adversary can compute all of it at an image of their own that has the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from recon.attacks.batches import gradient_gram
from recon.attacks.gauss_newton import RowSpace
from recon.attacks.gradient_system import JointSystem
from recon.attacks.rgap import Stacked
from recon.released import Gradient


@dataclass(frozen=True)
class Rank:
    """rank: numerical · deficiency: rank − unknowns ≤ 0, "rd" of Table 1 · condition: σ_max/σ_rank of U."""

    rank: int
    deficiency: int
    condition: float


def numerical_rank(system: Stacked) -> Rank:
    """Eigenvalues of the smaller Gram matrix above τ = ε · trace, ε = 2.2e-16.

    So singular values count down to √τ, about 1e-6 of the largest.  If Gram − τI has a Cholesky factor they all do,
    and only the extreme ones are computed; else all, by a dense eigensolver on at most min(rows, unknowns).
    """
    gram = system.gram()
    size = len(gram)
    threshold = np.finfo(np.float64).eps * np.trace(gram)
    try:
        factor = scipy.linalg.cho_factor(gram - threshold * np.eye(size), overwrite_a=True)
    except np.linalg.LinAlgError:
        values = scipy.linalg.eigvalsh(gram)
        rank = int((values > threshold).sum())
        condition = np.sqrt(values[-1] / values[size - rank])
    else:
        rank = size
        inverse = LinearOperator((size, size), matvec=lambda v: scipy.linalg.cho_solve(factor, v), dtype=gram.dtype)
        start = np.ones(size)
        largest = eigsh(gram, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-4)[0]
        smallest = 1 / eigsh(inverse, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-4)[0]
        condition = np.sqrt(largest / smallest)
    return Rank(rank, rank - system.shape[1], float(condition))


def security_metric(deficiencies: list[int]) -> int:
    """Eq. (12): c(M) = Σ_i (d − i + 1)/d · rd_i ≤ 0, larger is less secure; terms rounded half to even, as printed.

    >>> security_metric([0, -4533])  # CNN3 V1 of Table 1
    -2266
    """
    d = len(deficiencies)
    return sum(round((d - i) / d * deficiency) for i, deficiency in enumerate(deficiencies))


@dataclass(frozen=True)
class Determined:
    """What a gradient fixes of an image, to first order, at that image.

    rank: of the joint Jacobian · deficiency: rank − unknowns ≤ 0 · unread: entries (c·h·w,) that no equation reads ·
    fixed: entries (c·h·w,) whose unit vector lies in the row space: every image near this one with the same gradient
    has the same value there · values: singular values, from greatest to least.
    """

    rank: int
    deficiency: int
    unread: Tensor
    fixed: Tensor
    values: Tensor

    @property
    def whole(self) -> bool:
        """Whether all that is read is fixed: nothing is missing but entries that do not matter to the gradient."""
        return self.deficiency == -int(self.unread.sum())


def determined(system: JointSystem, x: Tensor, tol: float = 1e-6) -> Determined:
    """At an image x (c·h·w,) that solves the system.

    Rank as `RowSpace` counts it.  fixed: where the projection of the unit vector
    onto the row space has a squared length above 1 − tol.  A system of depth 0 fixes everything.
    """
    if system.depth == 0:
        everything = torch.ones(system.unknowns, dtype=torch.bool)
        return Determined(system.unknowns, 0, ~everything, everything, torch.ones(system.unknowns, dtype=torch.float64))
    jacobian = system.jacobian(x.double())
    rows = RowSpace.of(jacobian)
    return Determined(
        rank=rows.basis.shape[1],
        deficiency=rows.basis.shape[1] - jacobian.shape[1],
        unread=(jacobian == 0).all(0),
        fixed=rows.basis.square().sum(1) > 1 - tol,
        values=rows.values,
    )


def posterior_variance(gradient: Gradient, x: Tensor, sigma: float, prior: float = 1.0) -> Tensor:
    """Variance of each entry of the image (c·h·w,), given its gradient with noise N(0, σ²) on every entry.

    By the linear model at x (c·h·w,): diag((JᵀJ/σ² + I/prior)⁻¹), J the Jacobian of the whole gradient, `gradient_gram`
    · prior: variance of an entry before the gradient is seen, 1/12 for U(0, 1).
    """
    gram = gradient_gram(gradient, x)
    precision = gram / sigma**2
    precision.diagonal().add_(1 / prior)
    return torch.cholesky_inverse(torch.linalg.cholesky(precision)).diagonal()


__all__ = [
    "Determined",
    "Rank",
    "determined",
    "numerical_rank",
    "posterior_variance",
    "security_metric",
]
