"""Coordinates in a subspace of the inputs: where images, and all that training adds to a first layer, really live.

Gradient steps, and with weight decay the minimiser itself, move the first layer within the span of the training images
alone.  So a problem in d inputs is one in r ≪ d coordinates, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Subspace:
    """Orthonormal rows `basis` (..., r, d); leading dimensions are independent problems."""

    basis: Tensor

    @staticmethod
    def spanned_by(*rows: Tensor) -> Subspace:
        """The span of all rows of (..., k, d) tensors, by QR in float64; r = min(Σk, d)."""
        joint = torch.cat(rows, dim=-2).detach()
        return Subspace(torch.linalg.qr(joint.double().mT).Q.mT.to(joint.dtype))

    def __len__(self) -> int:
        """r."""
        return self.basis.shape[-2]

    def reduce(self, x: Tensor) -> Tensor:
        """Coordinates x Bᵀ (..., n, r) of rows x (..., n, d); what lies outside is dropped."""
        return x @ self.basis.mT

    def lift(self, coordinates: Tensor) -> Tensor:
        """Rows (..., n, d) of coordinates (..., n, r); reduce(lift(c)) = c."""
        return coordinates @ self.basis

    def outside(self, x: Tensor) -> Tensor:
        """What of x (..., n, d) the subspace does not hold: x − lift(reduce(x))."""
        return x - self.lift(self.reduce(x))
