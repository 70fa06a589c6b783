"""Names for recovered features: the nearest images of a public gallery, which holds a near-copy of
every training image, and of as many held-out ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import pad
from torchvision.transforms.functional import to_pil_image, to_tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.heads import experiment
from companion.chapters.heads.experiment import (
    BASE,
    Cell,
    as_features,
    head_of,
    similarity,
    task_of,
)
from companion.chapters.members import part_of
from companion.store.record import Record
from recon.attacks.heads import span_test, sparse_features
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.optim.rng import named

QUALITY = 50  # of JPEG
SHOWN = 3  # names of a feature
COLUMNS = 8  # features in the figure
FRONT = "mirrored"  # the copies of the figure


def shifted(x: Tensor) -> Tensor:
    """Images (n, C, H, W), two pixels to the right and one down; the edge is repeated."""
    return pad(x, (2, 0, 1, 0), "replicate")[..., :-1, :-2]


def compressed(x: Tensor) -> Tensor:
    """Images (n, C, H, W) in [0, 1], in grey or in colour, after JPEG."""
    files = [BytesIO() for _ in x]
    for image, file in zip((255 * x).round().to(torch.uint8), files, strict=True):
        to_pil_image(image).save(file, "JPEG", quality=QUALITY)
    return torch.stack([to_tensor(Image.open(file)) for file in files])


#: what the gallery holds of a training image
COPIES = {
    "the image itself": lambda x: x,
    "mirrored": lambda x: x.flip(-1),
    "shifted": shifted,
    "JPEG": compressed,
}


@dataclass(frozen=True, kw_only=True)
class Sizes(experiment.Sizes):
    """rest: images of the gallery that are neither public nor held out, at most."""

    rest: int


SIZES = {
    "smoke": Sizes(
        n_train=20,
        cells=(Cell(n=20, width=64),),
        side=64,
        public=100,
        others=60,
        epochs=400,
        base=replace(BASE, batch=5),
        rest=20,
    ),
    "laptop": Sizes(n_train=100, cells=(Cell(),), rest=100),
    "paper": Sizes(n_train=100, cells=(Cell(),), rest=2000),
}


class Metrics(Record):
    """gallery: other images in it · features: recovered.

    copies: What the gallery holds of n_train training images and as many held-out ones. named:
    training images whose copy is the first name of a recovered feature · heldout: held-out ones ·
    ceiling: training images named by the true features, span_null: by as many random mixtures of
    the span, row_null: by as many rows of the layer, the longest · span: training images among the
    n_train of the gallery that the span test puts first.
    """


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One head, its features, and what galleries with each kind of copy say of them."""
    pool = context.pool
    of = backbone(side=sizes.side)
    cell = sizes.cells[0]
    n = sizes.n_train
    task = task_of(sizes, context, cell)
    layer = FirstLayer(head_of(sizes, context, cell, task).parts[0])
    public = task.public
    found = sparse_features(layer, public)
    rank = len(found.basis)
    order = layer.w1.norm(dim=1).argsort(descending=True)
    normal = torch.randn(rank, rank, generator=named(context.seed, "heads mixtures"))
    queries = {
        "named": found.x_hat,
        "ceiling": task.train,
        "span_null": as_features(normal @ found.basis * public.units, public),
        "row_null": as_features(layer.w1[order[:rank]], public),
    }
    drawn = torch.randperm(len(task.others), generator=named(context.seed, "heads gallery"))
    asked = torch.cat([task.pixels["train"], task.pixels["others"][drawn[:n]]])
    rest, _ = part_of(pool, "train", ~np.isin(pool.index, task.index), sizes.rest)
    others = torch.cat([public.features, task.others[drawn[n:]], features(rest, of)])
    table = []
    galleries = {}
    for kind, copy in COPIES.items():
        known = galleries[kind] = torch.cat([features(copy(asked), of), others])
        first = {key: similarity(x, known, public).argmax(1) for key, x in queries.items()}
        first["span"] = span_test(layer, known, public, max(rank, 1)).topk(n).indices
        counts = {key: copies(names, n) for key, names in first.items()}
        table.append(Record(kind=kind, **counts, heldout=copies(first["named"] - n, n)))
    metrics = Metrics(n_train=n, gallery=len(others), features=len(found.x_hat), copies=table)
    # of the figure: training images, from the one whose feature is nearest to its first name to the
    # farthest, in even steps
    scores = similarity(found.x_hat, task.train, public).numpy()
    rows, columns = map(torch.from_numpy, linear_sum_assignment(scores, maximize=True))
    likeness, names = similarity(found.x_hat[rows], galleries[FRONT], public).topk(SHOWN)
    steps = torch.linspace(0, len(rows) - 1, COLUMNS).round().long()
    picked = likeness[:, 0].argsort(descending=True)[steps]
    pixels = COPIES[FRONT](asked), task.pixels["public"], task.pixels["others"][drawn[n:]], rest
    arrays = {
        "x_train": task.pixels["train"][columns[picked]].flatten(1),
        "names": torch.cat(pixels).flatten(1)[names[picked]],
        "likeness": likeness[picked],
        "copy": names[picked] < n,
    }
    return Outcome(metrics, arrays)


def copies(names: Tensor, n: int) -> int:
    """How many different ones of a gallery's first n images are among names (k,)."""
    return len(names[(names >= 0) & (names < n)].unique())
