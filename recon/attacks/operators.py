"""A convolutional layer as a linear system: U x = V, eqs. (1), (6), (7) of Chen & Campbell (2022), sparse.

For z = W x (convolution) and the weight gradient K x = vec ∇_W ℓ, with δ = ∇_z ℓ:

    W[(o, p), q] = w[o, t]   and   K[(o, t), q] = δ[o, p],   where tap t = (c, k, l) of output position p reads input q.

W has n_out rows, K as many as the kernel has weights.  Everything is built from one table: which input q tap t of
position p reads, any kernel, stride and padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
import torch
import torch.nn.functional as F
from torch import Tensor

from recon.nets.conv import Conv, ConvNet, Params, cross_entropy_direction

Shape = tuple[int, int, int]


def taps(conv: Conv, shape: Shape) -> np.ndarray:
    """Input index q read by tap t at position p, −1 in the padding; (c·k·k, positions)."""
    index = torch.arange(1, 1 + math.prod(shape), dtype=torch.float64).view(1, *shape)
    return F.unfold(index, conv.kernel, padding=conv.padding, stride=conv.stride)[0].long().numpy() - 1


def convolution_matrix(conv: Conv, weight: Tensor, shape: Shape) -> sparse.csr_array:
    """W of eq. (1a), (o·positions, c·h·w)."""
    return _reading(taps(conv, shape), weight, shape)


def gradient_matrix(conv: Conv, delta: Tensor, shape: Shape) -> sparse.csr_array:
    """K of eq. (1b), (o·c·k·k, c·h·w), from δ = ∇_z ℓ (o, positions) or (o, h', w')."""
    return _reading(taps(conv, shape).T, delta, shape)


def _reading(table: np.ndarray, values: Tensor, shape: Shape) -> sparse.csr_array:
    """M[(o, b), q] = values[o, a] where entry (a, b) of the table reads input q."""
    a, b = np.nonzero(table >= 0)
    channels = len(values)
    rows = np.arange(channels)[:, None] * table.shape[1] + b
    columns = np.broadcast_to(table[a, b], rows.shape)
    entries = values.double().numpy().reshape(channels, -1)[:, a]
    size = (channels * table.shape[1], math.prod(shape))
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

    def full_rank(self) -> bool:
        """Whether U x = V has one solution at most: UᵀU − τI, τ = ε · trace, has a Cholesky factor.

        `generic_rank` is an upper bound only: pixels that no position reads are missing from it.
        """
        if self.shape[0] < self.shape[1]:
            return False
        gram = self.gram()
        gram[np.diag_indices(len(gram))] -= np.finfo(np.float64).eps * np.trace(gram)
        try:
            scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return False
        return True

    def gram(self) -> np.ndarray:
        """UᵀU or UUᵀ, whichever is smaller, dense.  K has few rows with many entries: its part is a GEMM."""
        k = self.k.toarray()
        if self.shape[1] <= self.shape[0]:
            return (self.w.T @ self.w).toarray() + k.T @ k
        mixed = self.w @ k.T
        return np.block([[(self.w @ self.w.T).toarray(), mixed], [mixed.T, k @ k.T]])


def systems(network: ConvNet, theta: Params, x: Tensor, labels: Tensor) -> list[System]:
    """U_1 … U_d at one image x (1, c, h, w): what an attack would have to solve if it made no mistakes."""
    passes = network.layers(theta, x, cross_entropy_direction(labels))
    each = zip(network.convs, passes, network.image_shapes(), strict=False)
    return [system_of(conv, theta[layer.weight], layer.delta[0], shape) for conv, layer, shape in each]


def system_of(conv: Conv, weight: Tensor, delta: Tensor, shape: Shape) -> System:
    """U of one layer with weights (o, c, k, k) and δ = ∇_z ℓ (o, positions) or (o, h', w'), for inputs of `shape`."""
    return System(convolution_matrix(conv, weight, shape), gradient_matrix(conv, delta, shape))


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


def generic_deficiencies(network: ConvNet) -> list[int]:
    """rd_1 … rd_d by `generic_rank`.

    >>> generic_deficiencies(ConvNet((Conv(5, 16), Conv(5, 6, 2), Conv(5, 32, 1, 2))))  # CNN4 V2 of Table 1
    [0, -9316, 0]
    """
    convs = zip(network.convs, network.image_shapes(), strict=False)
    return [generic_rank(conv, shape) - math.prod(shape) for conv, shape in convs]


__all__ = [
    "System",
    "convolution_matrix",
    "generic_deficiencies",
    "generic_rank",
    "gradient_matrix",
    "system_of",
    "systems",
    "taps",
]
