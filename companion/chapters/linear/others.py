"""Photographs that a training set may be replaced by: all of a pool that nobody trained on, and for the bundled
photographs every patch outside their training thirds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recon.images.photos import MIN_CONTRAST, PATCH, PHOTOGRAPHS, photographs
from recon.images.pool import ImagePool

STRIDE = 4  # between neighbouring patches of the bundled photographs
APART = PATCH // 2  # pixels, in one direction at least, between two patches of one set
#: scikit-image says of the others that they are in the public domain or CC0, of this one it says nothing
NO_LICENCE = ("motorcycle_left.png",)


@dataclass(frozen=True)
class Others:
    """pixels (N, d) uint8 · y (N,) in {0, 1} · apart (N, N) bool, which two may stand in one set; None: any two."""

    pixels: Tensor
    y: Tensor
    apart: Tensor | None


def others(pool: ImagePool, train_index: Tensor) -> Others:
    """What a training set with these indices (n,) in its pool may be replaced by; disjoint from it in every pixel.

    Of the bundled photographs: patches every 4 pixels, outside the third that training patches are from, of those whose
    licence is known; two of them in one set lie 16 pixels apart or more.  Of other pools: the images of part "init"
    that are not in the training set.
    """
    if pool.name == "photos":
        return _patches()
    rows = np.flatnonzero((pool.part == "init") & ~np.isin(pool.index, train_index.numpy()))
    return Others(torch.from_numpy(pool.images[rows]).flatten(1), torch.from_numpy(pool.y[rows]), None)


def _patches() -> Others:
    images, labels, places = [], [], []
    for number, (name, (label, photo)) in enumerate(zip(PHOTOGRAPHS, photographs(halved=True), strict=True)):
        if name in NO_LICENCE:
            continue
        height, width = photo.shape[:2]
        columns = width // PATCH  # dealt to the three parts as by `recon.images.photos.tiles`
        outside = next(column for column in range(columns) if 3 * column // columns >= 1)
        for left in range(PATCH * outside, width - PATCH + 1, STRIDE):
            for top in range(0, height - PATCH + 1, STRIDE):
                patch = photo[top : top + PATCH, left : left + PATCH].transpose(2, 0, 1)
                if patch.mean(axis=0).std() >= MIN_CONTRAST:
                    images.append(patch)
                    labels.append(label)
                    places.append((10_000 * number, left, top))
    where = torch.tensor(places, dtype=torch.float32)
    apart = torch.cdist(where, where, p=torch.inf) >= APART
    return Others(torch.from_numpy(np.stack(images)).flatten(1), torch.tensor(labels), apart)
