"""Directions that a network does not see: how far a training image can be moved while nothing else
changes.

A direction v is *blind* where W1(0) v = 0 and ⟨x_i, v⟩ = 0 for all training images. Every step of
gradient training adds combinations of the images to the rows of W1, so W1 v = 0 at all times: at x
+ v every layer, the margin and the cell are those of x, however long v is. There are at least d − h
− n such directions.
"""

import torch
from torch import Tensor

from recon.errors import ReconError

EDGE = 4 / 255  # pixels nearer than this to black or white stay as they are


def seen_rows(w1_init: Tensor, x: Tensor) -> Tensor:
    """Orthonormal rows (r, d), float64, that span the rows of W1(0) (h, d) and the images x (n, d),
    r = h + n.

    ReconError where they are as many as inputs: then no direction is blind.
    """
    rows = torch.cat([w1_init.double(), x.double()])
    if len(rows) >= rows.shape[1]:
        raise ReconError(
            f"{len(w1_init)} units and {len(x)} images leave no blind direction of {rows.shape[1]}"
            " inputs"
        )
    return torch.linalg.qr(rows.mT).Q.mT


def room(pixels: Tensor) -> Tensor:
    """How far pixels (n, d) in [0, 1] can be moved to both sides, 0 for those within `EDGE` of
    black or white.
    """
    free = torch.minimum(pixels, 1 - pixels)
    return torch.where(free < EDGE, torch.zeros_like(free), free)


def toward(target: Tensor, reach: Tensor, seen: Tensor, iterations: int) -> Tensor:
    """The blind v (n, d) with |v| ≤ reach (n, d) that are nearest to `target` (n, d), by Dykstra's
    projections; then made exactly blind, and shortened until they are exactly within reach.

    All in float64.

    Args:
        seen (r, d): orthonormal rows, as by `seen_rows`.
    """
    v, correction = target.double(), torch.zeros_like(target, dtype=torch.float64)
    reach = reach.double()
    for _ in range(iterations):
        flat = v - (v @ seen.mT) @ seen
        v = (flat + correction).clamp(-reach, reach)
        correction = flat + correction - v
    v = _exactly(v, reach > 0, seen)
    inside = torch.where(reach > 0, reach / v.abs().clamp_min(1e-300), torch.inf)
    return inside.amin(1, keepdim=True).clamp_max(1.0) * v


def _exactly(v: Tensor, free: Tensor, seen: Tensor) -> Tensor:
    """The nearest rows to v (n, d) that are orthogonal to `seen` (r, d) and 0 where not free (n,
    d).

    Each row loses its part in the span of `seen` on its own free pixels, by QR. A row with no more
    than r free pixels cannot move. A conjugate gradient solves all rows at once, but where hardly
    more than r pixels are free it has not converged after hundreds of steps.
    """
    exact = torch.zeros_like(v)
    for row, pixels in enumerate(free):
        if pixels.sum() > len(seen):
            q = torch.linalg.qr(seen[:, pixels].mT).Q
            rest = v[row, pixels]
            for _ in range(2):  # once is not orthogonal to rounding where most of it is lost
                rest = rest - q @ (rest @ q)
            exact[row, pixels] = rest
    return exact
