"""How many equations one gradient holds: the rank of each layer's system U x = V, and the security metric c(M).

Chen & Campbell (2022), §3.3; the operators themselves are in `recon.attacks.operators`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from recon.attacks.operators import Shape, System
from recon.nets.conv import Conv


@dataclass(frozen=True)
class Rank:
    """rank: numerical · deficiency: rank − unknowns ≤ 0, "rd" of Table 1 · condition: σ_max/σ_rank of U."""

    rank: int
    deficiency: int
    condition: float


def numerical_rank(system: System) -> Rank:
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


def generic_rank(conv: Conv, shape: Shape) -> int:
    """min(n_in, n_out + |W| − c_out²): an upper bound, reached by every layer of Table 1.

    Less where few positions read few pixels each (large strides, wide padding).

    The c_out² dependencies: Σ_p δ[o, p] W[(o', p), ·] = Σ_t w[o', t] K[(o, t), ·] for every pair (o, o').

    >>> generic_rank(Conv(kernel=4, channels=6, stride=2), (3, 32, 32)) - 3072  # rd_1 of CNN2 V2
    -1470
    """
    n_in, n_out = math.prod(shape), math.prod(conv.output(shape))
    weights = conv.channels * shape[0] * conv.kernel**2
    return min(n_in, n_out + weights - conv.channels**2)


def security_metric(deficiencies: list[int]) -> int:
    """Eq. (12): c(M) = Σ_i (d − i + 1)/d · rd_i ≤ 0, larger is less secure; terms rounded half to even, as printed.

    >>> security_metric([0, -4533])  # CNN3 V1 of Table 1
    -2266
    """
    d = len(deficiencies)
    return sum(round((d - i) / d * deficiency) for i, deficiency in enumerate(deficiencies))


__all__ = ["Rank", "generic_rank", "numerical_rank", "security_metric"]
