"""Image grids in the papers' manner: a reconstruction in a black frame, its nearest neighbour in a grey one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from torch import Tensor

from recon.chapters.tables import MatchTable
from recon.images.pool import shape_of
from recon.scoring.matching import rescale
from recon.store.results import Result

#: what a curve or a dot is of, in every chapter: training images that are found, held-out images, the best without an
#: attack; colour-blind safe
TRAIN, HELD_OUT, FREE = sns.color_palette("colorblind", 3)
FRAMES = {"black": "#111111", "grey": "#a0a0a0", "none": "none"}
#: the nulls of `recon.scoring.nulls` that need no attack, as legends name them
FREE_NULLS = {
    "span": "mixtures of the span",
    "mixtures": "mixtures of training images",
    "rows": "rows of ±W1",
    "directions": "singular directions",
    "means": "mean images",
}
NULL_LABELS = {**FREE_NULLS, "held_out": "held-out images"}


def shown(result: Result[Any], x: Tensor) -> Tensor:
    """Centred images as one shows them: plus the mean, stretched to [0, 1] each, as in the reference code's figures."""
    return rescale(x + result.array("mean"))


def count_label(label: str, found: MatchTable) -> str:
    """A row's name with its count above NCC 0.6 and the best null's."""
    return f"{label}\n{found.matches.ncc_06}, best null {found.best_null.ncc_06}"


def as_pixels(image: Tensor) -> np.ndarray:
    """(H, W, C) in [0, 1], for matplotlib and Pillow, of one image (C, H, W) or, if it is square, flat."""
    image = image.detach().cpu().float()
    shape = image.shape if image.dim() == 3 else shape_of(image.numel())
    return image.reshape(shape).permute(1, 2, 0).clamp(0, 1).numpy()


def show_image(ax: Axes, image: Tensor, frame: str = "none", title: str = "") -> Axes:
    """One image, flat or (C, H, W), clipped to [0, 1], in a frame; a flat one is square."""
    ax.imshow(as_pixels(image), interpolation="nearest", cmap="gray", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(edgecolor=FRAMES[frame], linewidth=0 if frame == "none" else 2.5)
    if title:
        ax.set_title(title, fontsize=11, pad=2)
    return ax


def on_white(figure: FigureBase | None) -> Figure:
    """The figure of some axes on a white ground, as every figure of the book is in light and dark."""
    assert isinstance(figure, Figure)
    figure.patch.set_facecolor("white")
    return figure


def image_rows(
    rows: Sequence[tuple[str, Tensor, str]], titles: Sequence[Sequence[str]] | None = None, size: float = 0.95
) -> Figure:
    """A figure of labelled rows: (label, images (k, d), frame); titles[r][c] is printed above an image."""
    n_columns = max(len(images) for _, images, _ in rows)
    figure, axes = plt.subplots(
        len(rows), n_columns, figsize=(size * n_columns + 1.6, (size + 0.2) * len(rows)), squeeze=False
    )
    figure.patch.set_facecolor("white")
    for r, (label, images, frame) in enumerate(rows):
        for c in range(n_columns):
            if c < len(images):
                show_image(axes[r, c], images[c], frame, titles[r][c] if titles and titles[r] else "")
            else:
                axes[r, c].axis("off")
        axes[r, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=12)
    figure.tight_layout(pad=0.3)
    return figure
