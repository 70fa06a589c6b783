"""One attack on one first layer: what it finds, and what costs nothing; and images beside those of the pool."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.separation_common import counts
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.images.photos import at_side, patches
from recon.scoring.nulls import null_candidates


def attacked(images: Bundle, released: FirstLayer, context: Context, settings: SeparationSettings) -> Record:
    """The `count_table` of what `separate` finds, and rank: directions that stood out of the layer."""
    update = released.update  # once: κ takes a singular value decomposition
    found = separate(FirstLayer(update), images.shape, settings, context.stream("separation.attack"))
    table = count_table(found.x_hat, images, update, context.stream("separation.nulls"))
    return Record(**table, rank=len(found.basis))


def count_table(x_hat: Tensor, images: Bundle, w1: Tensor, generator: torch.Generator) -> Record:
    """The counts of candidates (m, d), and of `null_candidates` of the layer (h, d): as many as candidates or images,
    whichever are more.  Needs no particular image size."""
    candidates = null_candidates(w1, images.train, images.init, max(len(x_hat), len(images.train)), generator)
    free = {name: counts(x, images.train) for name, x in candidates.items()}
    matches, null = counts(x_hat, images.train), counts(x_hat, images.held_out)
    best = Record({name: max(found[name] for found in (null, *free.values())) for name in null})
    excess = Record({name: matches[name] - best[name] for name in best})
    return Record(matches=matches, null=null, best_null=best, excess=excess)


def photograph_images(n: int, side: int, device: torch.device) -> Bundle:
    """n patches of the bundled photographs' first two thirds, alternating between the classes while both last, against
    those of the last third (fewer), which serve as others too."""
    x, y, held_out = patches()
    x = at_side(x, side)
    shape, x = tuple(x.shape[1:]), x.flatten(1)
    rows = (~held_out).nonzero()[:, 0]
    turn = torch.cat([torch.arange(int((y[rows] == label).sum())) for label in (0, 1)])
    rows = torch.cat([rows[y[rows] == label] for label in (0, 1)])[turn.argsort(stable=True)][:n]
    mean = x[rows].mean(0)
    train, others = ((part - mean).to(device) for part in (x[rows], x[held_out]))
    return Bundle.of_tensors(train, others, others, shape, (y[rows], y[held_out], y[held_out]), mean.to(device))
