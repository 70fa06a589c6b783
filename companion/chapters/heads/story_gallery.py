"""Whether a gallery names recovered features; the rule was written before the runs judged by it."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.heads.experiment_gallery import Metrics, Sizes
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.results import Claim, Result, graded
from recon.scoring.nulls import clears

MOST = 0.5


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """By the kind of copy that names fewest: more than half of the training images, and more than
    what any query without the attack names.
    """
    n = metrics.n_train
    row = min(metrics.copies, key=lambda row: row.named)
    best = max(row.heldout, row.span_null, row.row_null)
    return [
        claim(
            "heads-gallery",
            metrics,
            verdict=graded(row.named > MOST * n, clears(row.named, best)),
            value=row.named / n,
            null_value=best / n,
            margin=(row.named - max(MOST * n, best)) / n,
        )
    ]


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """All, photographs as 8 bits."""
    return arrays | {name: levels(arrays[name]) for name in ("x_train", "names")}


@photographs
def plot_names(result: Result[Metrics]) -> Figure:
    """Training images, and below each the gallery's images nearest to its recovered feature, with
    cosines; a tick where that is a copy of a training image.
    """
    names, likeness, copy = map(result.figure, ("names", "likeness", "copy"))
    rows = [("training\nimage", result.figure("x_train"), "training")]
    titles: list[list[str]] = [[]]
    for k, word in enumerate(("first\nname", "second", "third")):
        rows.append((word, names[:, k], "none"))
        pairs = zip(likeness[:, k], copy[:, k], strict=True)
        titles.append([f"{cosine:.2f}" + " ✓" * bool(of) for cosine, of in pairs])
    return image_rows(rows, titles)


FIGURES = {"names": plot_names}
