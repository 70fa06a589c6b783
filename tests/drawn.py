"""A matplotlib backend that draws nothing and prints what would be drawn, so that nbval can compare
figures.

`MPLBACKEND=module://tests.drawn`: of every figure its words, and of every line, set of bars, cloud
of points and image how many numbers it has, their mean and their mean weighted by 1 … N.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureManagerBase as FigureManager
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas
from matplotlib.figure import Figure


def show(*_: object, **__: object) -> None:
    """Print every open figure and close it."""
    for number in plt.get_fignums():
        print("\n".join(drawn(plt.figure(number))))
    plt.close("all")


def drawn(figure: Figure) -> Iterator[str]:
    """The lines that stand for a figure; of each line, image, … how many numbers, their mean, their
    weighted mean.
    """
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    yield " | ".join(["figure", *words(text.get_text() for text in [*figure.texts, *legends])])
    for number, axes in enumerate(figure.axes, 1):
        texts = [
            *(axes.get_title(where) for where in ("left", "center", "right")),
            axes.get_xlabel(),
            axes.get_ylabel(),
        ]
        legend = axes.get_legend()
        texts += [
            text.get_text() for text in [*axes.texts, *(legend.get_texts() if legend else ())]
        ]
        yield " | ".join([f"axes {number}", *words(texts)])
        for name, found in groupby(data(axes), key=itemgetter(0)):
            if numbers := [in_short(values) for _, values in found if values.size]:
                yield f"  {name}: " + "; ".join(numbers)


def words(texts: Iterable[str]) -> list[str]:
    """What is written, each once and in the order of the alphabet: how often and where depends on
    numbers, which are masked, like the marks of what is true and false.
    """
    masked = (
        re.sub(r"[-−+±]?\d[\d.,]*(e[-+−]?\d+)?%?", "N", " ".join(text.split()))
        for text in texts
        if text.strip()
    )
    return sorted({re.sub("[✓✗]", "M", text) for text in masked})


def data(axes: Axes) -> Iterator[tuple[str, np.ndarray]]:
    """The numbers of everything in a system of axes."""
    for line in axes.lines:
        yield "line", np.asarray(line.get_ydata(), dtype=float)
    heights = [
        p.get_width() if p.get_height() == 0.8 else p.get_height()
        for p in axes.patches
        if hasattr(p, "get_height")
    ]
    yield "bars", np.asarray(heights, dtype=float)
    for collection in axes.collections:
        yield "points", np.ma.filled(np.ma.asarray(collection.get_offsets(), dtype=float), np.nan)
    for image in axes.images:
        yield "image", np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)


def in_short(values: np.ndarray) -> str:
    """How many numbers, their mean and weighted mean; those that are not finite are left out."""
    flat = values[np.isfinite(values)].ravel()
    weights = np.arange(1, flat.size + 1)
    mean, weighted = (
        (flat.mean(), (weights * flat).sum() / weights.sum()) if flat.size else (np.nan, np.nan)
    )
    return f"{values.size}, {mean:.3g}, {weighted:.3g}"


__all__ = ["FigureCanvas", "FigureManager", "drawn", "show"]
