"""Coordinates in a subspace of the inputs: where images, and all that training adds to a first
layer, really live.

Gradient steps, and with weight decay the minimiser itself, move the first layer within the span of
the training images alone. So a problem in d inputs is one in r ≪ d coordinates, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.nets.mlp import MLP


@dataclass(frozen=True)
class Subspace:
    """Orthonormal rows `basis` (..., r, d); leading dimensions are independent problems."""

    basis: Tensor

    @staticmethod
    def spanned_by(*rows: Tensor, dtype: torch.dtype = torch.float64) -> Subspace:
        """The span of all rows of (..., k, d) tensors, by QR in `dtype`; r = min(Σk, d)."""
        joint = torch.cat(rows, dim=-2).detach()
        return Subspace(torch.linalg.qr(joint.to(dtype).mT).Q.mT.to(joint.dtype))

    def __len__(self) -> int:
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


def reduced(network: MLP, theta: Tensor, space: Subspace) -> tuple[MLP, Tensor]:
    """The network on coordinates in the subspace, and its θ (..., p'): the first layer's weights
    times Bᵀ. Φ(lift(c); θ) = Φ'(c; θ') for coordinates c. theta (..., p); leading dimensions
    broadcast with the subspace's.
    """
    batch = torch.broadcast_shapes(theta.shape[:-1], space.basis.shape[:-2])
    small = network.with_inputs(len(space))
    params = dict(network.unflatten(theta.expand(*batch, -1)))
    return small, small.flatten({**params, "w1": space.reduce(params["w1"])})


def lifted(network: MLP, theta: Tensor, space: Subspace, outside: Tensor | None = None) -> Tensor:
    """Back from θ' (..., p') of the reduced network to θ (..., p) of `network`. What the subspace
    does not hold of the first layer is that of the θ `outside` (..., p), zero if None.
    """
    params = dict(network.with_inputs(len(space)).unflatten(theta))
    first = space.lift(params["w1"])
    if outside is not None:
        first = space.outside(network.unflatten(outside)["w1"]) + first
    return network.flatten({**params, "w1": first})


def in_span(
    network: MLP, theta: Tensor, x: Tensor, keep_outside: bool
) -> tuple[MLP, Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Training from θ (p,) on images x (n, d), in n coordinates where n < d: network, images, θ,
    and the way back.

    Args:
        keep_outside: what of θ's first layer lies outside the span of the images comes back, else
            it is zero.
    """
    if len(x) >= network.dim:
        return network, x, theta, lambda found: found
    space = Subspace.spanned_by(x)
    small, start = reduced(network, theta, space)
    return (
        small,
        space.reduce(x),
        start,
        lambda found: lifted(network, found, space, theta if keep_outside else None),
    )
