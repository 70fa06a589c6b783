"""What the chapters on separation share: the table of one attack on one first layer, and who counts as recovered."""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.separation import Released, Separated, Settings, separate
from recon.chapters.base import Context
from recon.images.pools import centre
from recon.scoring.matching import one_to_one, padded
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates

TRUE_NCC = 0.7  # a candidate is true above this with a training image, if no other image is nearer
OTHERS = 3000
THRESHOLDS = (0.6, 0.7, 0.8)
NULL_STREAM, SEPARATION_STREAM = 70, 71


@dataclass(frozen=True)
class Sets:
    """Flat images (n, d) minus the training mean: training, held out, others that nobody trained on, for nulls; shape
    (C, H, W), or (d,)."""

    train: Tensor
    held_out: Tensor
    others: Tensor
    shape: tuple[int, ...]


def other_rows(context: Context, used: Tensor) -> Tensor:
    """Rows in the pool of up to `OTHERS` images whose index is not among those `used` (n,), drawn by the seed."""
    free = (~torch.isin(torch.from_numpy(context.pool.index), used)).nonzero()[:, 0]
    return free[torch.randperm(len(free), generator=context.generator(NULL_STREAM + 2))[:OTHERS]]


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


def counts(x_hat: Tensor, images: Tensor) -> dict[str, int]:
    """One-to-one matches of images (n, d) with candidates (m, d) above each of `THRESHOLDS`."""
    scores = one_to_one(images, padded(x_hat, len(images))).score
    return {f"ncc_{t}": int((scores > t).sum()) for t in THRESHOLDS}


def count_table(x_hat: Tensor, sets: Sets, w1: Tensor, generator: torch.Generator) -> dict:
    """matches, null (held-out images), span_null (the larger of mixtures of the layer's span and of the training
    images), best_null, excess: counts as by `counts`, which needs no particular image size."""
    candidates = null_candidates(w1, sets.train, sets.others, max(len(x_hat), len(sets.train)), generator)
    free = {name: counts(x, sets.train) for name, x in candidates.items()}
    matches, null = counts(x_hat, sets.train), counts(x_hat, sets.held_out)
    best = {key: max(null[key], *(row[key] for row in free.values())) for key in matches}
    return {
        "matches": matches,
        "null": null,
        "span_null": {key: max(free["span"][key], free["mixtures"][key]) for key in matches},
        "best_null": best,
        "excess": {key: matches[key] - best[key] for key in matches},
    }


def attacked(sets: Sets, released: Released, context: Context, settings: Settings) -> tuple[Separated, dict]:
    """`separate`, and the `count_table` of what it found."""
    found = separate(released, sets.shape, settings, context.generator(SEPARATION_STREAM))
    table = count_table(found.x_hat, sets, released.update, context.generator(NULL_STREAM))
    return found, {"rank": len(found.basis), **table}


def smears(w1: Tensor, k: int) -> Tensor:
    """The k rows of w1 (h, d) with the largest norms, as unit vectors: what the mixture looks like."""
    return normalize(w1[w1.norm(dim=1).argsort(descending=True, stable=True)[:k]], dim=1)


def packed(cell: dict) -> dict[str, Tensor]:
    """A JSON-able dict as a tensor of bytes, for `recon.store.sweep`."""
    return {"json": torch.frombuffer(bytearray(json.dumps(cell).encode()), dtype=torch.uint8)}


def unpacked(tensors: dict[str, Tensor]) -> dict:
    """Inverse of `packed`."""
    return json.loads(bytes(tensors["json"].tolist()))
