"""Names for recovered features: the nearest images of a public gallery, which holds a near-copy of
every training image, and of as many held-out ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize, pad
from torchvision.transforms.functional import pil_to_tensor, to_pil_image

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
    """Images (n, C, H, W) in [0, 1], in grey or in colour, after JPEG."""
    pictures = []
    for image in (255 * x).round().to(torch.uint8):
        file = BytesIO()
        to_pil_image(image).save(file, "JPEG", quality=QUALITY)
        pictures.append(pil_to_tensor(Image.open(file)))
    return torch.stack(pictures).float() / 255


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
    ceiling: training images named by the true features, span_null: by as many random mixtures of
    the span, row_null: by as many rows of the layer, the longest · span, filter: training images
    among the n_train of the gallery that the span test, or the matched filter, puts first.
    classes: Share of the training images whose class the first other image has: of the query
    nearest to their feature, by the names above.
    """


@dataclass(frozen=True)
class Gallery:
    """Galleries by the kind of copy: features (2 n + k, d) of copies of n training images, of n
    decoys, and of k other images; pixels of the copies and of the others, classes (k,) of those;
    index (n,) of the decoys.
    """

    known: dict[str, Tensor]
    copies: dict[str, Tensor]
    others: Tensor
    labels: Tensor
    decoys: Tensor


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One head, its features, and what galleries with each kind of copy say of them."""
    head, task = _setting(sizes, context)
    released, public, n = _head(head, context, head.cells[0], task), task.public, len(task.train)
    w, bias = _first(released.module)
    found = sparse_features(FirstLayer(w), public)
    rank, gallery = len(found.basis), _gallery(sizes, context, task)
    normal = torch.randn(rank, rank, generator=named(context.seed, "heads mixtures"))
    queries = {
        "named": found.x_hat,
        "ceiling": task.train,
        "span_null": _as_feature(normal @ found.basis * public.units, public),
        "row_null": _as_feature(w[w.norm(dim=1).argsort(descending=True)[:rank]], public),
    }
    table = []
    for kind, known in gallery.known.items():
        first = {key: similarity(x, known, public).argmax(1) for key, x in queries.items()}
        span = span_test(FirstLayer(w), known, public, max(rank, 1))
        first["span"] = span.topk(n).indices
        first["filter"] = matched_filter(w, bias, known, public).topk(n).indices
        counts = {key: _copies_among(names, 0, n) for key, names in first.items()}
        table.append(Record(kind=kind, **counts, heldout=_copies_among(first["named"], n, 2 * n)))

    def of_its_class(x: Tensor) -> float:
        strangers = gallery.known[FRONT][2 * n :]
        first = similarity(assigned(x, task.train, public), strangers, public).argmax(1)
        return float((gallery.labels[first] == task.labels).float().mean())

    metrics = Metrics(
        n_train=n,
        gallery=len(gallery.labels),
        features=len(found.x_hat),
        copies=table,
        classes=Record({key: of_its_class(x) for key, x in queries.items()}),
    )
    matched = assigned(found.x_hat, task.train, public)
    likeness, names = similarity(matched, gallery.known[FRONT], public).topk(SHOWN)
    arrays = {
        "x_hat": found.x_hat,
        "train_index": task.train_index,
        "heldout_index": gallery.decoys,
        "x_train": task.pixels["train"],
        "names": torch.cat([gallery.copies[FRONT], gallery.others])[names].flatten(2),
        "likeness": likeness,
        "copy": names < n,
    }
    return Outcome(metrics, arrays)


def rescored(sizes: Sizes, context: Context, x_hat: Tensor) -> Record:
    """How many training images kept features (r, d) name."""
    task = _setting(sizes, context)[1]
    firsts = (
        similarity(x_hat, known, task.public).argmax(1)
        for known in _gallery(sizes, context, task).known.values()
    )
    return Record(
        copies=[Record(named=_copies_among(first, 0, len(task.train))) for first in firsts]
    )


def _setting(sizes: Sizes, context: Context) -> tuple[HeadSizes, Task]:
    """The chapter's experiment with this head alone, and its images."""
    cell = Cell(n=sizes.n_train, width=sizes.width)
    names = ("n_train", "side", "public", "others", "base", "epochs")
    head = HeadSizes(cells=(cell,), **{name: getattr(sizes, name) for name in names})
    return head, _task(head, context, cell)


def _gallery(sizes: Sizes, context: Context, task: Task) -> Gallery:
    """Of public images, held-out ones but for the decoys, and more of the training part."""
    pool, of = context.pool, backbone(side=sizes.side)
    free = ~np.isin(pool.index, task.train_index)
    public = np.flatnonzero((pool.part == "init") & free)[: sizes.public]
    heldout = np.flatnonzero(np.isin(pool.index, task.other_index))
    rest = np.flatnonzero((pool.part == "train") & free)[: sizes.rest]
    drawn = torch.randperm(len(heldout), generator=named(context.seed, "heads gallery"))
    decoys, left = drawn[: len(task.train)], drawn[len(task.train) :].sort().values
    asked = torch.cat([task.pixels["train"], task.pixels["others"][decoys]])
    copies = {kind: copy(asked.unflatten(1, pool.shape)) for kind, copy in COPIES.items()}
    place = np.concatenate([public, heldout[left], rest])
    others = [task.public.features, task.others[left]]
    others += [features(pool.pixels(rest), of)] if len(rest) else []
    return Gallery(
        known={kind: torch.cat([features(x, of), *others]) for kind, x in copies.items()},
        copies=copies,
        others=pool.pixels(place),
        labels=torch.from_numpy(pool.labels[place]),
        decoys=task.other_index[decoys],
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
