"""How every figure of the book is drawn: one style, one colour for each role, and grids of images.

A function that draws has the decorator `chart`, `heatmap` for a map, or, where photographs are in
it, `photographs`. All set the style, and write below a figure of a result which run that is. A
chart's ground tells the build that it can be inverted for dark pages (book/_ext/tidy_pages.py);
what keeps its colours there has no ground, and letters that can be read on white and on black.

A figure shows arrays of a result whose names begin with "figure.", and no others: those are what
`recon keep` keeps.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Literal, ParamSpec

import matplotlib.pyplot as plt
import numpy as np
import torch
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from torch import Tensor

from companion.chapters.tables import MatchTable
from companion.store.kept import LEVELS
from companion.store.results import Result
from recon.images.pool import shape_of

P = ParamSpec("P")
Colour = str | tuple[float, float, float]
#: what a mark or a frame is of, in every chapter (Okabe & Ito, safe for the colour-blind): what an
#: attack recovers, training images, other photographs, noise
RECOVERED = "#d55e00"
TRAIN = "#0072b2"
OTHERS = "#009e73"
NOISE = "#bb63ac"
#: what there is without an attack; and lines of reference: chance, the paper's value, a bound
BASELINE = REFERENCE = "#767676"
#: where an attack starts, and which set an image is near to: the truth, other photographs, noise
STARTS = {"truth": TRAIN, "partition": OTHERS, "random": NOISE}
#: what has no role: networks, methods, optimisers; our way first, where there is one
SERIES = ["#333333", "#d55e00", "#3596d0", "#8f6bb3", "#a6761d", "#d96bab", "#1b9e77", "#979700"]
# inches: as wide as a page's column, so that letters are shown as large as they are drawn
PAGE = 7.0
#: points, in grids of images
SMALLEST = 7.2
LABEL = 9.0
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=SERIES),
    "lines.linewidth": 1.8,
}
CHART_GROUND = "#fefefe"
NO_GROUND = "none"
LETTERS = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
#: around an image: what an attack recovered, a training image, what there is without an attack
FRAMES: dict[str, dict[str, Any]] = {
    "recovered": {"color": RECOVERED},
    "training": {"color": TRAIN},
    "baseline": {"color": BASELINE, "linestyle": "--"},
    "none": {"visible": False},
}


def _in_style(plot: Callable[P, Figure], ground: str, tight: bool) -> Callable[P, Figure]:
    style = STYLE if ground == CHART_GROUND else STYLE | dict.fromkeys(LETTERS, REFERENCE)

    @wraps(plot)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with plt.rc_context(style):
            figure = plot(*args, **kwargs)
            if tight and figure.get_layout_engine() is None:
                figure.tight_layout(pad=0.4)
        if args and isinstance(args[0], Result):
            figure.text(0.0, -0.01, args[0].label, fontsize=SMALLEST, color=REFERENCE, va="top")
        figure.patch.set_facecolor(ground)
        return figure

    return styled


#: for a function that draws curves or dots: the book's style, on a ground a hair off white
chart = partial(_in_style, ground=CHART_GROUND, tight=True)
#: for maps, whose colours mean something and stay on dark pages: as `chart`, without a ground
heatmap = partial(_in_style, ground=NO_GROUND, tight=True)
#: for a function that shows images, which stay as they are on dark pages: without a ground, placed
#: as it says itself
photographs = partial(_in_style, ground=NO_GROUND, tight=False)


def ink(colour: Colour) -> tuple[float, float, float]:
    """The same colour, dark enough for letters."""
    red, green, blue = to_rgb(colour)
    return 0.7 * red, 0.7 * green, 0.7 * blue


def note(
    ax: Axes,
    words: str,
    at: tuple[float, float],
    by: tuple[float, float],
    colour: Colour = "#333333",
    ha: Literal["left", "right"] = "left",
) -> None:
    """Words in a colour, some points beside a place of the data, which lines do not strike
    through.
    """
    text = ax.annotate(
        words, at, by, textcoords="offset points", color=ink(colour), ha=ha, va="center"
    )
    text.set_path_effects([withStroke(linewidth=3, foreground=CHART_GROUND)])


def end_labels(ax: Axes, curves: Sequence[tuple[float, str, Colour]]) -> None:
    """Names of curves at the right of the axes, at the heights where the curves end, moved up where
    they would overlap. After the limits are set.
    """
    points = 72 * ax.figure.figure.get_figheight() * ax.get_position().height
    size = float(plt.rcParams["legend.fontsize"])
    to_axes = ax.transData + ax.transAxes.inverted()
    low = -math.inf
    for y, words, colour in sorted(curves, key=lambda curve: curve[0]):
        half = 0.8 * size / points * (1 + words.count("\n"))
        end = np.clip(to_axes.transform((ax.get_xlim()[0], y))[1], 0, 1)
        place = max(float(end), low + half)
        low = place + half
        ax.text(1.03, place, words, transform=ax.transAxes, va="center", color=ink(colour))


def dot_rows(
    names: Sequence[str],
    marks: Mapping[str, tuple[Sequence[float], Mapping[str, Any]]],
    accuracies: Sequence[float],
) -> Figure:
    """A row for each name, from the top down: shares as marks, (values, style) by their label, on a
    line from the least to the largest, and the accuracy at the right.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 0.3 * max(len(names), 2) + 1.0))
    y = range(len(names))
    percent = 100 * np.array([values for values, _ in marks.values()])
    ax.hlines(y, percent.min(0), percent.max(0), color="#bbbbbb", lw=2, zorder=1)
    for (label, (_, style)), values in zip(marks.items(), percent, strict=True):
        ax.plot(values, y, ls="none", ms=8, label=label, **style)
    for at, words in zip([-0.9, *y], ["accuracy", *map("{:.0%}".format, accuracies)], strict=True):
        ax.text(118, at, words, va="center", ha="right", color=REFERENCE)
    ax.set_yticks(y, names)
    ax.set(xlabel="%", xlim=(-3, 118), xticks=range(0, 101, 20))
    ax.set_ylim(max(len(names), 1) - 0.3, -1.1)
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=min(len(marks), 4), reverse=True
    )
    return figure


def levels(x: Tensor) -> Tensor:
    """Images in [0, 1], of any shape, as 8 bits: how a result holds those that its figures show."""
    return (x.detach().clamp(0, 1) * LEVELS).round().to(torch.uint8)


def count_label(table: MatchTable) -> str:
    """The published recipe's row, with how many training and held-out images it matches by SSIM."""
    counts = f"{table.matches.ssim_04} trained on,\n{table.null.ssim_04} held out"
    return f"published\nrecipe\nSSIM: {counts}"


def as_pixels(image: Tensor) -> np.ndarray:
    """(H, W, C) in [0, 1], for matplotlib and Pillow, of one image, (C, H, W) or, if it is square,
    flat.

    Args:
        image: in [0, 1], or of 8 bits.
    """
    image = image.float() / LEVELS if image.dtype == torch.uint8 else image.detach().cpu().float()
    shape = image.shape if image.dim() == 3 else shape_of(image.numel())
    return image.reshape(shape).permute(1, 2, 0).clamp(0, 1).numpy()


@photographs
def image_rows(
    rows: Sequence[tuple[str, Tensor | Sequence[Tensor | None], str | Sequence[str]]],
    titles: Sequence[Sequence[str]] | None = None,
    size: float = 0.95,
) -> Figure:
    """A figure of labelled rows: (label, images (k, d), frame of all, or of each); titles[r][c] is
    printed above an image. None is an empty place.

    Args:
        size: the side of an image in inches, at most; it is less where the rows would be wider than
            a page.
    """
    titles = titles or ()
    n_columns = max(len(images) for _, images, _ in rows)
    left = 0.1 + 0.07 * max(len(line) for label, _, _ in rows for line in label.split("\n"))
    side = min(size, (PAGE - left) / n_columns)
    heads = [max((1 + title.count("\n") for title in row), default=0) for row in titles]
    shape = (left + n_columns * side, len(rows) * side + 0.14 * sum(heads))
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0, hspace=0, compress=True)
    figure = plt.figure(figsize=shape, layout=layout)
    grid = figure.subplots(len(rows), n_columns, squeeze=False)
    for r, (label, images, frame) in enumerate(rows):
        grid[r, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=LABEL)
        for c, ax in enumerate(grid[r]):
            ax.set(xticks=[], yticks=[], facecolor=NO_GROUND)
            ax.spines[:].set(visible=False)
            image = images[c] if c < len(images) else None
            if image is not None:
                pixels = as_pixels(image)
                ax.imshow(pixels, interpolation="nearest", cmap="gray", vmin=0, vmax=1)
                ax.spines[:].set(
                    **{"visible": True, "linewidth": 2}
                    | FRAMES[frame if isinstance(frame, str) else frame[c]]
                )
            if r < len(titles) and c < len(titles[r]):
                ax.set_title(titles[r][c], fontsize=SMALLEST, pad=2, linespacing=1.1)
    return figure
