"""Where descents end: how far from each of several sets of images, and where the nearest set changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from recon.scoring.matching import nearest
from recon.scoring.metrics import Shape


def set_distances(x_hat: Tensor, sets: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Mean L2 distance of images x_hat (S, n, d) in [0, 1] to their neighbours in each set (k, d); (S,) each.

    The neighbour is the most alike by SSIM, as in Runkel et al. (2024), §4.5.  shape: (C, H, W).
    """
    rows, starts = x_hat.flatten(0, 1), x_hat.shape[:2]
    found = {}
    for name, members in sets.items():
        members = members.to(rows)
        neighbour = members[nearest(rows, members, "ssim", shape).index]
        found[name] = (rows - neighbour).norm(dim=-1).unflatten(0, starts).mean(-1)
    return found


def crossing(lambdas: Sequence[float], falling: Tensor, rising: Tensor) -> float | None:
    """λ at which `falling` (k,) first gets below `rising` (k,), by linear interpolation; None if it does not."""
    gap = (falling - rising).double()
    for k in range(1, len(lambdas)):
        if gap[k - 1] > 0 >= gap[k]:
            share = (gap[k - 1] / (gap[k - 1] - gap[k])).item()
            return lambdas[k - 1] + share * (lambdas[k] - lambdas[k - 1])
    return None


def different_starts(lambdas: Sequence[float]) -> list[int]:
    """Rows of the grid of eq. (10), λ₁ the slower index, whose starts differ: all of λ₂ > 0, and one of those with
    λ₂ = 0, which are the same noise."""
    side = len(lambdas)
    return [i * side + j for i in range(side) for j in range(side) if lambdas[j] > 0 or i == 0]


def random_pairs(count: int, wanted: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """`wanted` different pairs of 0 … count − 1, or all of them."""
    pairs = list(combinations(range(count), 2))
    return [pairs[k] for k in torch.randperm(len(pairs), generator=generator)[:wanted].tolist()]
