"""Names for recovered features: the nearest images of a public gallery, which holds a near-copy of
every training image, and of as many held-out ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, pad
from torchvision.io import decode_image, encode_jpeg

from companion.chapters.base import Context, Outcome
from companion.chapters.heads.experiment import BASE, Cell, Task, _first, _head, _task
from companion.chapters.heads.experiment import Sizes as HeadSizes
from companion.chapters.heads.scoring import assigned, similarity
from companion.store.record import Record
from recon.attacks.heads import Public, matched_filter, span_test, sparse_features
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.optim.rng import named
from recon.training.recipes import Recipe

QUALITY = 50  # of JPEG
SHOWN = 3  # names of a feature
FRONT = "mirrored"  # the copies of the figure


def shifted(x: Tensor) -> Tensor:
    """Images (n, C, H, W), two pixels to the right and one down; the edge is repeated."""
    return pad(x, (2, 0, 1, 0), "replicate")[..., :-1, :-2]


def compressed(x: Tensor) -> Tensor:
    """Images (n, C, H, W) in [0, 1] after JPEG."""
    files = [encode_jpeg(image, QUALITY) for image in (255 * x).round().to(torch.uint8)]
    return torch.stack([decode_image(file) for file in files]).float() / 255


#: what the gallery holds of a training image
COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "the image itself": lambda x: x,
    "mirrored": lambda x: x.flip(-1),
    "shifted": shifted,
    "JPEG": compressed,
}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A head by SGD with decay: n_train images, hidden units, its recipe, passes over the images;
    the side of the images that the backbone is given, and how many others the gallery has of each
    part, at most.
    """

    n_train: int = 100
    width: int = 512
    base: Recipe = BASE
    epochs: int = 1000
    side: int = 128
    public: int = 2034
    others: int = 2034
    rest: int = 0


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        base=replace(BASE, batch=5),
        epochs=400,
        side=64,
        public=100,
        others=60,
    ),
    "laptop": Sizes(),
    "paper": Sizes(rest=2000),
}


class Metrics(Record):
    """gallery: other images in it · features: recovered.

    copies: What the gallery holds of n_train training images and as many held-out ones. named:
    training images whose copy is the first name of a recovered feature · heldout: held-out ones ·
    span_null: training images named by as many random mixtures of the span, and row_null: by as
    many rows of the layer, the longest · span, filter: training images among the n_train of the
    gallery that the span test, or the matched filter, puts first.
    classes: Share of the training images whose class the first other image has: by the recovered
    feature, by the true one (ceiling), by the mixture of the span nearest to it (span_null).
    """


@dataclass(frozen=True)
class Images:
    """Images of a gallery: features (k, d), pixels (k, C, H, W), classes (k,)."""

    features: Tensor
    pixels: Tensor
    labels: Tensor


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One head, its features, and what galleries with each kind of copy say of them."""
    cell, side = Cell(n=sizes.n_train, width=sizes.width), sizes.side
    head = HeadSizes(
        n_train=cell.n,
        cells=(cell,),
        side=side,
        public=sizes.public,
        others=sizes.others,
        base=sizes.base,
        epochs=sizes.epochs,
    )
    task = _task(head, context, cell)
    released, public, n = _head(head, context, cell, task), task.public, len(task.train)
    w, bias = _first(released.module)
    found = sparse_features(FirstLayer(w), public)
    rank, generator = len(found.basis), named(context.seed, "heads gallery")
    decoys = torch.randperm(len(task.others), generator=generator)[:n]
    mixtures = torch.randn(rank, rank, generator=generator) @ found.basis * public.units
    rows = w[w.norm(dim=1).argsort(descending=True)[:rank]]
    nulls = {"span_null": _as_feature(mixtures, public), "row_null": _as_feature(rows, public)}
    strangers = _strangers(sizes, context, task, decoys)
    asked = torch.cat([task.pixels["train"], task.pixels["others"][decoys]])
    asked = asked.unflatten(1, context.pool.shape)
    copies = {name: copy(asked) for name, copy in COPIES.items()}
    known = {
        name: torch.cat([features(x, backbone(side=side)), strangers.features])
        for name, x in copies.items()
    }
    table = []
    for name, gallery in known.items():
        first = similarity(found.x_hat, gallery, public).argmax(1)
        scores = {
            "span": span_test(FirstLayer(w), gallery, public, max(rank, 1)),
            "filter": matched_filter(w, bias, gallery, public),
        }
        table.append(
            Record(
                kind=name,
                named=_copies_among(first, 0, n),
                heldout=_copies_among(first, n, 2 * n),
                **{
                    null: _copies_among(similarity(x, gallery, public).argmax(1), 0, n)
                    for null, x in nulls.items()
                },
                **{key: _copies_among(s.topk(n).indices, 0, n) for key, s in scores.items()},
            )
        )

    def of_its_class(x: Tensor) -> float:
        likeness = similarity(assigned(x, task.train, public), strangers.features, public)
        return float((strangers.labels[likeness.argmax(1)] == task.labels).float().mean())

    queries = {"found": found.x_hat, "ceiling": task.train, "span_null": nulls["span_null"]}
    metrics = Metrics(
        n_train=n,
        gallery=len(strangers.labels),
        features=len(found.x_hat),
        copies=table,
        classes=Record({name: of_its_class(x) for name, x in queries.items()}),
    )
    matched = assigned(found.x_hat, task.train, public)
    likeness, names = similarity(matched, known[FRONT], public).topk(SHOWN)
    arrays = {
        "x_hat": found.x_hat,
        "train_index": task.train_index,
        "heldout_index": task.other_index[decoys],
        "x_train": task.pixels["train"],
        "names": torch.cat([copies[FRONT], strangers.pixels])[names].flatten(2),
        "likeness": likeness,
        "copy": names < n,
    }
    return Outcome(metrics, arrays)


def _strangers(sizes: Sizes, context: Context, task: Task, decoys: Tensor) -> Images:
    """All other images: public ones, held-out ones but for the decoys, and more of the training
    part.
    """
    pool = context.pool
    free = ~np.isin(pool.index, task.train_index)
    public = np.flatnonzero((pool.part == "init") & free)[: sizes.public]
    others = np.flatnonzero(np.isin(pool.index, task.other_index))
    rest = np.flatnonzero((pool.part == "train") & free)[: sizes.rest]
    left = np.isin(np.arange(len(others)), decoys, invert=True)
    more = features(pool.pixels(rest), backbone(side=sizes.side)) if len(rest) else task.others[:0]
    place = np.concatenate([public, others[left], rest])
    return Images(
        torch.cat([task.public.features, task.others[left], more]),
        pool.pixels(place),
        torch.from_numpy(pool.labels[place]),
    )


def _as_feature(x: Tensor, public: Public) -> Tensor:
    """Rows (k, d) as features are: of the sign that leaves less below zero, nothing there, of the
    length of a public one.
    """
    below, above = x.clamp_max(0).square().sum(1), x.clamp_min(0).square().sum(1)
    x = torch.where((below > above)[:, None], -x, x).clamp_min(0)
    return normalize(x, dim=1) * public.features.norm(dim=1).median()


def _copies_among(names: Tensor, low: int, high: int) -> int:
    """How many different ones of the images low … high − 1 of a gallery are among names (k,)."""
    return len(names[(names >= low) & (names < high)].unique())
