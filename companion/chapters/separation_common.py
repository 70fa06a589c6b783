"""What the two chapters on separation share: who counts as recovered, and images that nobody trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from companion.chapters.base import Context
from recon.attacks.separation import Separated
from recon.images.partitions import centre
from recon.scoring.matching import one_to_one, padded
from recon.scoring.metrics import ncc

TRUE_NCC = 0.7  # a candidate is true above this with a training image, if no other image is nearer
OTHERS = 3000
THRESHOLDS = (0.6, 0.7, 0.8)


@dataclass(frozen=True)
class NCCCounts:
    """How many images are above each of `THRESHOLDS`."""

    ncc_06: Annotated[int, Field(alias="ncc_0.6")]
    ncc_07: Annotated[int, Field(alias="ncc_0.7")]
    ncc_08: Annotated[int, Field(alias="ncc_0.8")]


def each(function: Callable[..., int], *parts: NCCCounts) -> NCCCounts:
    """The function of the parts' counts, threshold by threshold.

    >>> each(max, NCCCounts(3, 2, 1), NCCCounts(4, 0, 0))
    NCCCounts(ncc_06=4, ncc_07=2, ncc_08=1)
    """
    return NCCCounts(*(function(*numbers) for numbers in zip(*map(astuple, parts), strict=True)))


def above(scores: Tensor) -> NCCCounts:
    """How many of the scores (n,) are above each of `THRESHOLDS`."""
    return NCCCounts(*(int((scores > threshold).sum()) for threshold in THRESHOLDS))


def counts(x_hat: Tensor, images: Tensor) -> NCCCounts:
    """One-to-one matches of images (n, d) with candidates (m, d) above each of `THRESHOLDS`."""
    return above(one_to_one(images, padded(x_hat, len(images))).score)


def other_rows(context: Context, used: Tensor) -> Tensor:
    """Rows in the pool of up to `OTHERS` images whose index is not among those `used` (n,), drawn by the seed."""
    free = (~torch.isin(torch.from_numpy(context.pool.index), used)).nonzero()[:, 0]
    return free[torch.randperm(len(free), generator=context.stream("separation.others"))[:OTHERS]]


def others_of(context: Context, used: Tensor, mean: Tensor) -> Tensor:
    """The images of `other_rows` (k, d), minus `mean`."""
    images = torch.from_numpy(context.pool.images[other_rows(context, used).numpy()])
    return centre(images.flatten(1).float() / 255, mean.cpu()).to(mean)


def is_true(found: Separated, train: Tensor, others: Tensor) -> Tensor:
    """(r,) bool: |NCC| above `TRUE_NCC` with a training image, and larger than with any of `others`.

    The sign is left out: mixtures do not hold it, and a negative is recognised as one.
    """
    if not len(found.sources):
        return torch.zeros(0, dtype=torch.bool)
    to_train, to_others = (ncc(found.sources, x).abs().amax(1) for x in (train, others))
    return (to_train > TRUE_NCC) & (to_train > to_others)
