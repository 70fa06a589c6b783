"""Images that nobody trained on, and what is kept of the nulls to draw them."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.base import Tensors
from recon.images.bundle import Bundle
from recon.images.pool import ImagePool
from recon.scoring.matching import one_to_one, padded
from recon.scoring.nulls import null_curves


def gallery(pool: ImagePool, without: Tensor, mean: Tensor) -> Tensor:
    """Every image of the pool but those with index in `without`, centred (g, d): nobody trained on them."""
    rest = ~torch.isin(torch.from_numpy(pool.index), without)
    return torch.from_numpy(pool.images)[rest].flatten(1).to(mean) / 255 - mean


def null_arrays(nulls: Tensors, images: Bundle, shown: int = 10) -> Tensors:
    """Per null the sorted NCC (n,) of the training images; and of each its best candidates (≤ shown, d) with the rows
    of the training images they match."""
    arrays = {f"null_ncc_{name}": curve for name, curve in null_curves(nulls, images.train).items()}
    for name, x in nulls.items():
        candidates = padded(x, len(images.train))
        match = one_to_one(images.train, candidates)
        best = match.score.argsort(descending=True)[:shown]
        arrays |= {f"null_best_{name}": candidates[match.index[best]], f"null_best_row_{name}": best}
    return arrays
