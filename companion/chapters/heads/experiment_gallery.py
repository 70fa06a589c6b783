"""Names for recovered features: the nearest images of a public gallery, which holds a near-copy of
every training image, and of as many held-out ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize, pad
from torchvision.transforms.functional import pil_to_tensor, to_pil_image

from companion.chapters.base import Context, Outcome
from companion.chapters.heads import experiment
from companion.chapters.heads.experiment import BASE, Cell, Task, _first, _head, _task
from companion.chapters.heads.scoring import assigned, similarity
from companion.store.record import Record
from recon.attacks.heads import Public, span_test, sparse_features
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.optim.rng import named

QUALITY = 50  # of JPEG
SHOWN = 3  # names of a feature
FRONT = "mirrored"  # the copies of the figure


def shifted(x: Tensor) -> Tensor:
    """Images (n, C, H, W), two pixels to the right and one down; the edge is repeated."""
    return pad(x, (2, 0, 1, 0), "replicate")[..., :-1, :-2]


def compressed(x: Tensor) -> Tensor:
    """Images (n, C, H, W) in [0, 1], in grey or in colour, after JPEG."""
    pictures = []
    for image in (255 * x).round().to(torch.uint8):
        file = BytesIO()
        to_pil_image(image).save(file, "JPEG", quality=QUALITY)
        pictures.append(pil_to_tensor(Image.open(file)))
    return torch.stack(pictures).float() / 255


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
    cell, n = sizes.cells[0], sizes.n_train
    task = _task(sizes, context, cell)
    w, _ = _first(_head(sizes, context, cell, task).module)
    layer, public = FirstLayer(w), task.public
    found = sparse_features(layer, public)
    rank = len(found.basis)
    normal = torch.randn(rank, rank, generator=named(context.seed, "heads mixtures"))
    queries = {
        "named": found.x_hat,
        "ceiling": task.train,
        "span_null": _as_feature(normal @ found.basis * public.units, public),
        "row_null": _as_feature(w[w.norm(dim=1).argsort(descending=True)[:rank]], public),
    }
    galleries, pixels = _galleries(sizes, context, task)
    table = []
    for kind, known in galleries.items():
        first = {key: similarity(x, known, public).argmax(1) for key, x in queries.items()}
        first["span"] = span_test(layer, known, public, max(rank, 1)).topk(n).indices
        counts = {key: _copies(names, n) for key, names in first.items()}
        table.append(Record(kind=kind, **counts, heldout=_copies(first["named"] - n, n)))
    matched = assigned(found.x_hat, task.train, public)
    likeness, names = similarity(matched, galleries[FRONT], public).topk(SHOWN)
    arrays = {"x_train": task.pixels["train"], "names": pixels[names], "likeness": likeness}
    metrics = Metrics(
        n_train=n, gallery=len(pixels) - 2 * n, features=len(found.x_hat), copies=table
    )
    return Outcome(metrics, arrays | {"copy": names < n})


def _galleries(sizes: Sizes, context: Context, task: Task) -> tuple[dict[str, Tensor], Tensor]:
    """Features (2 n + k, d) by the kind of copy: of copies of the n training images, of copies of n
    held-out ones, and of other images; pixels (2 n + k, C·H·W) of the gallery in the figure.
    """
    pool, of, n = context.pool, backbone(side=sizes.side), len(task.train)
    order = torch.randperm(len(task.others), generator=named(context.seed, "heads gallery"))
    heldout = task.pixels["others"]
    asked = torch.cat([task.pixels["train"], heldout[order[:n]]]).unflatten(1, pool.shape)
    copies = {kind: copy(asked) for kind, copy in COPIES.items()}
    free = (pool.part == "train") & ~np.isin(pool.index, task.train_index)
    rest = pool.pixels(np.flatnonzero(free)[: sizes.rest])
    others = task.public.features, task.others[order[n:]], features(rest, of)
    pixels = copies[FRONT].flatten(1), task.pixels["public"], heldout[order[n:]], rest.flatten(1)
    known = {kind: torch.cat([features(x, of), *others]) for kind, x in copies.items()}
    return known, torch.cat(pixels)


def _as_feature(x: Tensor, public: Public) -> Tensor:
    """Rows (k, d) as features are: of the sign that leaves less below zero, nothing there, of the
    length of a public one.
    """
    flipped = x.clamp_max(0).norm(dim=1) > x.clamp_min(0).norm(dim=1)
    x = torch.where(flipped[:, None], -x, x).clamp_min(0)
    return normalize(x, dim=1) * public.features.norm(dim=1).median()


def _copies(names: Tensor, n: int) -> int:
    """How many different ones of a gallery's first n images are among names (k,)."""
    return len(names[(names >= 0) & (names < n)].unique())
