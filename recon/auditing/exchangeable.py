"""Are held-out images such as training images are?  Asked before any p-value, since every one of them assumes it.

`near_copies` finds held-out images that are training images but for noise, brightness or contrast.  `two_sample` is a
classifier two-sample test (Lopez-Paz & Oquab 2017): a linear classifier on simple features of the images tries to tell
the two sets apart; how well it does on images left out is compared with random relabellings.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from recon.scoring.metrics import ncc

NEAR = 0.98  # NCC above which two images are copies
LEVEL = 0.01  # p of the two-sample test below which nothing else is said
MOST_COPIES = 0.2  # share of the held-out images
PERMUTATIONS = 999
THUMBNAIL = 4
MOST_TOLD = 2000


@dataclass(frozen=True)
class Exchangeability:
    """copies: (row held out, row in training, NCC) · kept: rows of held-out images that are no copies · p: of the
    two-sample test on those · why_not: one sentence where the sets cannot be compared, else None."""

    copies: list[tuple[int, int, float]]
    kept: list[int]
    p: float
    why_not: str | None


def compared(train: Tensor, held_out: Tensor, seed: int) -> Exchangeability:
    """Of pixels (n, C, H, W) and (m, C, H, W)."""
    copies = near_copies(train, held_out)
    rows = {row for row, _, _ in copies}
    kept = [row for row in range(len(held_out)) if row not in rows]
    if len(copies) > MOST_COPIES * len(held_out) or not kept:
        many = f"{len(copies)} of {len(held_out)} held-out images are near-copies of training images"
        return Exchangeability(copies, kept, 1.0, many)
    p = two_sample(train, held_out[kept], seed)
    told = (
        "held-out images can be told from training images without the network "
        f"(two-sample test on brightness, contrast, edges and thumbnails, p = {p:.1g})"
    )
    return Exchangeability(copies, kept, p, told if p < LEVEL else None)


def near_copies(train: Tensor, held_out: Tensor) -> list[tuple[int, int, float]]:
    """(row held out, most alike row in training, NCC) of those above `NEAR`."""
    best = [ncc(part.flatten(1), train.flatten(1)).max(1) for part in held_out.split(500)]
    values, rows = torch.cat([each.values for each in best]), torch.cat([each.indices for each in best])
    pairs = zip(values.tolist(), rows.tolist(), strict=True)
    return [(row, index, value) for row, (value, index) in enumerate(pairs) if value > NEAR]


def drawn(count: int, n: int, seed: int) -> list[int]:
    """n of `count` rows, drawn by `seed`; all of them, in their order, where there are no more."""
    if count <= n:
        return list(range(count))
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:n].tolist()


def features(x: Tensor) -> Tensor:
    """(n, f) of images (n, C, H, W): by channel mean, spread and mean absolute differences of neighbours; a thumbnail
    of THUMBNAIL × THUMBNAIL, grey.  Standardised; those that do not vary are 0."""
    grey = adaptive_avg_pool2d(x.mean(1, keepdim=True), (min(THUMBNAIL, x.shape[2]), min(THUMBNAIL, x.shape[3])))
    rows = [x.mean((2, 3)), x.std((2, 3), correction=0), grey.flatten(1)]
    rows += [x.diff(dim=dim).abs().mean((2, 3)) for dim in (2, 3) if x.shape[dim] > 1]
    found = torch.cat(rows, dim=1).double()
    spread = found.std(0)
    return torch.where(spread > 1e-9, (found - found.mean(0)) / spread.clamp_min(1e-12), 0.0)


def two_sample(train: Tensor, held_out: Tensor, seed: int, permutations: int = PERMUTATIONS) -> float:
    """p-value of the correlation between set and left-out prediction of a ridge classifier, by permutation; of large
    sets on `MOST_TOLD` images of each, drawn by `seed`.

    Predictions of image i by the classifier fitted without it are (ŷ_i − h_ii y_i) / (1 − h_ii), ŷ = H y.
    """
    train, held_out = (part[drawn(len(part), MOST_TOLD, seed)] for part in (train, held_out))
    x = features(torch.cat([train, held_out]).float())
    y = torch.cat([torch.ones(len(train)), -torch.ones(len(held_out))]).double()
    y = y - y.mean()
    generator = torch.Generator().manual_seed(seed)
    orders = torch.stack([torch.randperm(len(y), generator=generator) for _ in range(permutations)], dim=1)
    labels = torch.cat([y[:, None], y[orders]], dim=1)
    inverse = torch.linalg.inv(x.mT @ x + x.shape[1] * torch.eye(x.shape[1], dtype=x.dtype))
    leverage = ((x @ inverse) * x).sum(1, keepdim=True).clamp_max(1 - 1e-6)
    left_out = (x @ (inverse @ (x.mT @ labels)) - leverage * labels) / (1 - leverage)
    left_out = left_out - left_out.mean(0)
    agreement = (left_out * labels).sum(0) / left_out.norm(dim=0).clamp_min(1e-12)
    return float((agreement[1:] >= agreement[0] - 1e-12).sum() + 1) / (permutations + 1)
