"""A convolutional layer as a linear system: U x = V, eqs. (1), (6), (7), sparse, with its rank and the security metric.

For z = W x (convolution) and the weight gradient K x = vec ∇_W ℓ, with δ = ∇_z ℓ:

    W[(o, p), q] = w[o, t]   and   K[(o, t), q] = δ[o, p],   where tap t = (c, k, l) of output position p reads input q.

W has n_out rows, K as many as the kernel has weights.  Everything is built from one table: which input q tap t of
position p reads, any kernel, stride and padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from recon.nets.conv import Conv, ConvNet

Shape = tuple[int, int, int]


def taps(conv: Conv, shape: Shape) -> np.ndarray:
    """Input index q read by tap t at position p, −1 in the padding; (c·k·k, positions)."""
    index = torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float64).view(1, *shape)
    return F.unfold(index, conv.kernel, padding=conv.padding, stride=conv.stride)[0].long().numpy() - 1


def convolution_matrix(conv: Conv, weight: Tensor, shape: Shape) -> sparse.csr_array:
    """W of eq. (1a), (o·positions, c·h·w)."""
    return _reading(taps(conv, shape), weight, shape)


def gradient_matrix(conv: Conv, delta: Tensor, shape: Shape) -> sparse.csr_array:
    """K of eq. (1b), (o·c·k·k, c·h·w), from δ = ∇_z ℓ (o, h', w')."""
    return _reading(taps(conv, shape).T, delta, shape)


def _reading(table: np.ndarray, values: Tensor, shape: Shape) -> sparse.csr_array:
    """M[(o, b), q] = values[o, a] where entry (a, b) of the table reads input q."""
    a, b = np.nonzero(table >= 0)
    channels = len(values)
    rows = np.arange(channels)[:, None] * table.shape[1] + b
    columns = np.broadcast_to(table[a, b], rows.shape)
    entries = values.double().numpy().reshape(channels, -1)[:, a]
    size = (channels * table.shape[1], int(np.prod(shape)))
    return sparse.csr_array((entries.ravel(), (rows.ravel(), columns.ravel())), shape=size)


@dataclass(frozen=True)
class System:
    """U = [W; K] of eq. (6), with W and K kept apart."""

    w: sparse.csr_array
    k: sparse.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, unknowns)."""
        return self.w.shape[0] + self.k.shape[0], self.w.shape[1]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """U x."""
        return np.concatenate([self.w @ x, self.k @ x])

    def adjoint(self, v: np.ndarray) -> np.ndarray:
        """Uᵀ v."""
        rows = self.w.shape[0]
        return self.w.T @ v[:rows] + self.k.T @ v[rows:]

    def dense(self) -> np.ndarray:
        """U, for small cases and tests."""
        return np.vstack([self.w.toarray(), self.k.toarray()])

    def gram(self) -> np.ndarray:
        """UᵀU or UUᵀ, whichever is smaller, dense.  K has few rows with many entries: its part is a GEMM."""
        k = self.k.toarray()
        if self.shape[1] <= self.shape[0]:
            return (self.w.T @ self.w).toarray() + k.T @ k
        mixed = self.w @ k.T
        return np.block([[(self.w @ self.w.T).toarray(), mixed], [mixed.T, k @ k.T]])


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
    n_in, n_out = int(np.prod(shape)), int(np.prod(conv.output(shape)))
    weights = conv.channels * shape[0] * conv.kernel**2
    return min(n_in, n_out + weights - conv.channels**2)


def systems(network: ConvNet, weights: list[Tensor], x: Tensor, labels: Tensor) -> list[System]:
    """U_1 … U_d at one image x (1, c, h, w): what an attack would have to solve if it made no mistakes."""
    each = zip(network.convs, weights, network.chain(weights, x, labels).delta, network.shapes(), strict=False)
    return [system_of(conv, weight, delta[0], shape) for conv, weight, delta, shape in each]


def system_of(conv: Conv, weight: Tensor, delta: Tensor, shape: Shape) -> System:
    """U of one layer with weights (o, c, k, k) and δ = ∇_z ℓ (o, h', w'), for inputs of `shape`."""
    return System(convolution_matrix(conv, weight, shape), gradient_matrix(conv, delta, shape))


def security_metric(deficiencies: list[int]) -> int:
    """Eq. (12): c(M) = Σ_i (d − i + 1)/d · rd_i ≤ 0, larger is less secure; terms rounded half to even, as printed.

    >>> security_metric([0, -4533])  # CNN3 V1 of Table 1
    -2266
    """
    d = len(deficiencies)
    return sum(round((d - i) / d * deficiency) for i, deficiency in enumerate(deficiencies))


__all__ = [
    "Rank",
    "System",
    "convolution_matrix",
    "generic_rank",
    "gradient_matrix",
    "numerical_rank",
    "security_metric",
    "system_of",
    "systems",
    "taps",
]
