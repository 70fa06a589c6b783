"""One attack on one first layer: what it finds, and what costs nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.separation_common import NCCCounts, above, counts, each
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, Separated, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates


def attacked(
    images: Bundle, released: FirstLayer, context: Context, settings: SeparationSettings
) -> tuple[Separated, Record]:
    """`separate`, and the `count_table` of what it found."""
    update = released.update  # once: κ takes a singular value decomposition
    found = separate(FirstLayer(update), images.shape, settings, context.stream("separation.attack"))
    table = count_table(found.x_hat, images, update, context.stream("separation.nulls"))
    return found, Record(**flat(table), rank=len(found.basis))


def count_table(x_hat: Tensor, images: Bundle, w1: Tensor, generator: torch.Generator) -> Record:
    """The counts of candidates (m, d), and of `null_candidates` of the layer (h, d): as many as candidates or images,
    whichever are more.  Needs no particular image size."""
    candidates = null_candidates(w1, images.train, images.init, max(len(x_hat), len(images.train)), generator)
    free = {name: counts(x, images.train) for name, x in candidates.items()}
    matches, null = counts(x_hat, images.train), counts(x_hat, images.held_out)
    best = each(max, null, *free.values())
    return Record(matches=matches, null=null, best_null=best, excess=_excess(matches, best))


def patch_table(found: Separated, images: Bundle) -> Record:
    """Candidates whose nearest patch, of as many training as held-out ones, is of training, above each NCC; null:
    one of the held out.  What is no more than the null is no training patch read out."""
    k = min(len(images.train), len(images.held_out))
    train, held_out = (ncc(found.sources, x[:k]).abs().amax(1) for x in (images.train, images.held_out))
    matches, null = above(train[train > held_out]), above(held_out[held_out >= train])
    return Record(matches=matches, null=null, best_null=null, excess=_excess(matches, null))


def _excess(matches: NCCCounts, null: NCCCounts) -> NCCCounts:
    return each(lambda found, free: found - free, matches, null)
