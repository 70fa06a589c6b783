"""How every figure of the book is drawn: one style, one colour for each role, and grids of images.

A function that draws has the decorator `chart`, `heatmap` for a map, or, where photographs are in
it, `photographs`. All set the style, and write below a figure of a result which run that is; they
differ in the ground, which tells the build what can be inverted for dark pages (see
book/_ext/tidy_pages.py).

A figure shows arrays of a result whose names begin with "figure.", and no others: those are what
`recon keep` keeps.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, ParamSpec

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from companion.chapters.tables import MatchTable
from companion.store.kept import LEVELS
from companion.store.results import Result
from recon.images.pool import shape_of

P = ParamSpec("P")
Colour = str | tuple[float, float, float]
#: what a curve or a dot is of, in every chapter: training images that are found, held-out images,
#: the best without an attack; colour-blind safe, and the orange a little darker than seaborn's, to
#: stand out from white
TRAIN, _, FREE = sns.color_palette("colorblind", 3)
HELD_OUT = "#cf8104"
#: starts and results that are noise; and lines of reference: chance, the paper's value, a bound
NOISE, REFERENCE = "#bb63ac", "#767676"
#: where an attack starts, and which set an image is near to: the truth, other photographs, noise
STARTS = {"truth": TRAIN, "partition": HELD_OUT, "random": NOISE}
#: what has no role: networks, methods, optimisers; our way first, where there is one
SERIES = ["#333333", "#d55e00", "#3596d0", "#8f6bb3", "#a6761d", "#d96bab", "#1b9e77", "#979700"]
# inches: as wide as a page's column, so that letters are shown as large as they are drawn
PAGE = 7.0
TITLE, SMALLEST, LABEL = 8.5, 7.2, 9.0  # points, in grids of images
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
CHART_GROUND, PHOTOGRAPHS_GROUND = "#fefefe", "#ffffff"
FRAMES = {"black": "#111111", "grey": "#a0a0a0", "none": "none"}
#: the nulls of `recon.scoring.nulls` that need no attack, as legends name them
FREE_NULLS = {
    "span": "mixtures of the span",
    "mixtures": "mixtures of training images",
    "rows": "rows of ±W1",
    "directions": "singular directions",
    "means": "mean images",
}


def chart(plot: Callable[P, Figure]) -> Callable[P, Figure]:
    """For a function that draws curves, dots or maps: the book's style, and a ground a hair off
    white.
    """
    return _styled(plot, CHART_GROUND)


def photographs(plot: Callable[P, Figure]) -> Callable[P, Figure]:
    """For a function that shows images, which stay as they are on dark pages: the book's style, on
    white.
    """
    return _styled(plot, PHOTOGRAPHS_GROUND)


def heatmap(plot: Callable[P, Figure]) -> Callable[P, Figure]:
    """For maps, whose colours mean something and stay on dark pages: as `chart`, on white."""
    return _styled(plot, PHOTOGRAPHS_GROUND, tight=True)


def _styled(plot: Callable[P, Figure], ground: str, tight: bool = False) -> Callable[P, Figure]:
    @wraps(plot)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with plt.rc_context(STYLE):
            figure = plot(*args, **kwargs)
            if (tight or ground == CHART_GROUND) and figure.get_layout_engine() is None:
                figure.tight_layout(pad=0.4)
        if args and isinstance(args[0], Result):
            figure.text(0.0, -0.01, args[0].label, fontsize=SMALLEST, color=REFERENCE, va="top")
        figure.patch.set_facecolor(ground)
        return figure

    return styled


def ink(colour: Colour) -> tuple[float, float, float]:
    """The same colour, dark enough for letters."""
    red, green, blue = to_rgb(colour)
    return 0.7 * red, 0.7 * green, 0.7 * blue


def letters_on(ground: Any) -> str:
    """Black or white, whichever stands out more from a ground, any colour of matplotlib: by the
    relative luminance of WCAG 2.

    >>> letters_on("#21918c"), letters_on("#3b528b")
    ('black', 'white')
    """
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(ground)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def note(
    ax: Axes,
    words: str,
    at: tuple[float, float],
    by: tuple[float, float] = (0, 0),
    colour: Colour = "#333333",
    ha: Literal["left", "center", "right"] = "left",
    va: Literal["center", "bottom"] = "center",
    high: bool = False,
) -> None:
    """Words in a colour, some points beside a place of the data, which lines do not strike through;

    Args:
        high: its y is a share of the axes' height.
    """
    place = ("data", "axes fraction") if high else "data"
    text = ax.annotate(
        words, at, by, xycoords=place, textcoords="offset points", color=ink(colour), ha=ha, va=va
    )
    text.set_path_effects([withStroke(linewidth=3, foreground=CHART_GROUND)])


def end_labels(ax: Axes, curves: Sequence[tuple[float, str, Colour]]) -> None:
    """Names of curves at the right of the axes, at the heights where the curves end; moved apart,
    with a thin line, where ends meet, and kept beside the axes, where another panel's would meet
    them. After the limits are set.
    """
    size = float(plt.rcParams["legend.fontsize"])
    figure = ax.figure.figure
    height = figure.get_figheight() * ax.get_position().height
    at = [
        ax.transAxes.inverted().transform(ax.transData.transform((ax.get_xlim()[0], y)))[1]
        for y, _, _ in curves
    ]
    order = sorted(range(len(curves)), key=at.__getitem__)
    ends = [min(max(float(at[k]), 0.0), 1.0) for k in order]
    lines = [1 + curves[k][1].count("\n") for k in order]
    half = 0.5 * size * 1.6 / 72 / height  # of a line
    gaps = [half * (one + other) for one, other in zip(lines, lines[1:], strict=False)]
    upward, downward = list(ends), list(ends)
    for k, gap in enumerate(gaps):
        upward[k + 1] = max(ends[k + 1], upward[k] + gap)
    for k in reversed(range(len(gaps))):
        downward[k] = min(ends[k], downward[k + 1] - gaps[k])
    places = [(up + down) / 2 for up, down in zip(upward, downward, strict=True)]
    for k, gap in enumerate([0.0, *gaps]):
        places[k] = max(places[k], places[k - 1] + gap if k else half * lines[0])
    for k, end, place in zip(order, ends, places, strict=True):
        _, words, colour = curves[k]
        # the line ends at the left of its words: towards their middle it would cross others'
        beside = (0, 0.5)
        line = {
            "arrowstyle": "-",
            "color": colour,
            "lw": 0.7,
            "shrinkA": 1,
            "shrinkB": 0,
            "relpos": beside,
        }
        ax.annotate(
            words,
            (1.0, end),
            (1.04, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            color=ink(colour),
            fontsize=size,
            annotation_clip=False,
            arrowprops=line if abs(place - end) > 0.02 else None,
        )


def levels(x: Tensor) -> Tensor:
    """Images in [0, 1], of any shape, as 8 bits: how a result holds those that its figures show."""
    return (x.detach().clamp(0, 1) * LEVELS).round().to(torch.uint8)


def count_label(label: str, found: MatchTable) -> str:
    """A row's name with its count above NCC 0.6 and the best null's."""
    return f"{label}\n{found.matches.ncc_06}, best null {found.best_null.ncc_06}"


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
    rows: Sequence[tuple[str, Tensor | Sequence[Tensor | None], str]],
    titles: Sequence[Sequence[str]] | None = None,
    size: float = 0.95,
) -> Figure:
    """A figure of labelled rows: (label, images (k, d), frame); titles[r][c] is printed above an
    image. None is an empty place.

    Args:
        size: the side of an image in inches, at most; it is less where the rows would be wider than
            a page.
    """
    above = [_lines(titles[r] if titles and r < len(titles) else ()) for r in range(len(rows))]
    n_columns = max(len(images) for _, images, _ in rows)
    left = 0.1 + 0.07 * max(len(line) for label, _, _ in rows for line in label.split("\n"))
    gap = 0.06
    side = min(size, (PAGE - 0.15 - left) / n_columns - gap)
    longest = max(
        (len(line) for each in titles or () for title in each for line in title.split("\n")),
        default=1,
    )
    letters = min(TITLE, max(SMALLEST, 72 * (side + gap) / (0.6 * max(longest, 1))))
    heads = [0.05 + 1.2 * letters / 72 * lines if lines else 0.0 for lines in above]
    width, height = left + n_columns * (side + gap), sum(heads) + len(rows) * (side + gap) + gap
    figure = plt.figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.axis("off")
    top = gap
    for r, (label, images, frame) in enumerate(rows):
        top += heads[r]
        ax.text(left - 0.08, top + side / 2, label, ha="right", va="center", fontsize=LABEL)
        for c, image in enumerate(images):
            if image is not None:
                x = left + c * (side + gap)
                show_image(ax, image, (x, top), side, frame)
                words = titles[r][c] if titles and r < len(titles) and c < len(titles[r]) else ""
                ax.text(
                    x + side / 2,
                    top - 0.04,
                    words,
                    ha="center",
                    va="bottom",
                    fontsize=letters,
                    linespacing=1.1,
                )
        top += side + gap
    return figure


def _lines(titles: Sequence[str]) -> int:
    return max((1 + title.count("\n") for title in titles if title), default=0)


def show_image(
    ax: Axes, image: Tensor, at: tuple[float, float], side: float, frame: str = "none"
) -> None:
    """One image, flat or (C, H, W), clipped to [0, 1], in a frame, on axes whose y grows downwards:
    its upper left corner and its side; a flat one is square.
    """
    x, y = at
    extent = (x, x + side, y + side, y)
    ax.imshow(
        as_pixels(image),
        interpolation="nearest",
        cmap="gray",
        vmin=0,
        vmax=1,
        extent=extent,
        aspect="auto",
        zorder=1,
    )
    if frame != "none":
        ax.add_patch(
            Rectangle(at, side, side, fill=False, edgecolor=FRAMES[frame], linewidth=2, zorder=2)
        )
