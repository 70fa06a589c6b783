"""Whether a gallery names recovered features; the rule was written before the runs judged by it."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.heads.experiment_gallery import SHOWN, Metrics, Sizes
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.results import Claim, Result, graded
from recon.scoring.nulls import clears

MOST = 0.5
NULLS = ("heldout", "span_null", "row_null")
COLUMNS = 8


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """By the kind of copy that names fewest: more than half of the training images, and more than
    what any query without the attack names.
    """
    least = min(metrics.copies, key=lambda row: row.named)
    best = max(least[name] for name in NULLS)
    most = least.named > MOST * metrics.n_train
    return [
        claim(
            "heads-gallery",
            {**metrics, "least": least},
            verdict=graded(most, clears(least.named, best)),
            value=least.named / metrics.n_train,
            null_value=best / metrics.n_train,
            margin=(least.named - max(MOST * metrics.n_train, best)) / metrics.n_train,
        )
    ]


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """Training images from the one whose feature is nearest to its first name to the farthest, in
    even steps; their names.
    """
    order = arrays["likeness"][:, 0].argsort(descending=True)
    picked = order[torch.linspace(0, len(order) - 1, COLUMNS).round().long()]
    images = {name: levels(arrays[name][picked]) for name in ("x_train", "names")}
    return images | {name: arrays[name][picked] for name in ("likeness", "copy")}


@photographs
def plot_names(result: Result[Metrics]) -> Figure:
    """Training images, and below each the gallery's images nearest to its recovered feature, with
    cosines; a tick where that is a copy of a training image.
    """
    names, likeness, copy = map(result.figure, ("names", "likeness", "copy"))
    rows = [("training\nimage", result.figure("x_train"), "grey")]
    titles: list[list[str]] = [[]]
    for k, word in enumerate(("first\nname", "second", "third")[:SHOWN]):
        rows.append((word, names[:, k], "none"))
        ticks = [" ✓" if of else "" for of in copy[:, k]]
        titles.append([f"{x:.2f}{tick}" for x, tick in zip(likeness[:, k], ticks, strict=True)])
    return image_rows(rows, titles)


FIGURES = {"names": plot_names}
