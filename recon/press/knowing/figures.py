"""The map of knowing, drawn: what comes out against how much is told, and what noise leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from recon.analysis.privacy_bounds import least_error
from recon.chapters.all_but_one.claims_private import best_null
from recon.chapters.pictures import FREE, HELD_OUT, PAGE, REFERENCE, SERIES, TRAIN, chart, end_labels
from recon.press.knowing.point import DENSE, KNOWLEDGE, NETWORKS, Point

COLOURS = dict(zip(NETWORKS, (SERIES[3], SERIES[1], TRAIN, SERIES[4], SERIES[6], SERIES[5]), strict=True))
NAMES = {DENSE: "two to five hidden layers"}
SPREAD = 0.16  # decades over which points at one place are drawn side by side


@chart
def plot_map(points: Sequence[Point], output: Any, sgd: Any) -> Figure:
    """One panel a kind of knowledge: share of the missing images beyond the best null, against p / (d m).  Below, what
    noise leaves of the adversary with all images but one.  output, sgd: metrics of informed-output, informed-sgd."""
    figure = plt.figure(figsize=(PAGE, 12.2), layout=ConstrainedLayoutEngine(h_pad=0.03, w_pad=0.03))
    parts: Any = figure.subfigures(3, 1, height_ratios=(0.9, 8.6, 2.7))
    head, above, below = parts
    axes = above.subplots(len(KNOWLEDGE), 1, sharex=True)
    for ax, knowledge in zip(axes, KNOWLEDGE, strict=True):
        here = [point for point in points if point.knowledge == knowledge]
        ax.axvline(1, color=REFERENCE, lw=0.8, ls=":")
        for point, x in zip(here, side_by_side([point.told for point in here]), strict=True):
            _draw(ax, point, x)
        ax.set(xscale="log", xlim=(6e-4, 3e2), ylim=(-0.16, 1.16), yticks=(0, 0.5, 1))
        ax.set_title(knowledge, loc="left", pad=3)
    axes[-1].set_xlabel("numbers released for each number that is missing, p / (d m)")
    above.supylabel("share of the missing images, beyond the best null", fontsize=plt.rcParams["axes.labelsize"])
    head.legend(handles=_legend(), loc="center", ncols=3, handletextpad=0.2, columnspacing=1.0)
    left, right = below.subplots(1, 2)
    _noise_on_weights(left, output)
    _noise_on_steps(right, sgd)
    return figure


def side_by_side(x: Sequence[float]) -> list[float]:
    """Each x, and those that are the same spread a little, in the order in which they come.

    >>> side_by_side([1.0, 2.0]), side_by_side([1.0, 1.0])[0] < 1 < side_by_side([1.0, 1.0])[1]
    ([1.0, 2.0], True)
    """
    placed, seen = [], {value: 0 for value in x}
    for value in x:
        alike = sum(other == value for other in x)
        at = (seen[value] + 0.5) / alike - 0.5 if alike > 1 else 0.0
        seen[value] += 1
        placed.append(value * 10 ** (2 * SPREAD * at))
    return placed


def _draw(ax: Axes, point: Point, x: float) -> None:
    colour = COLOURS[point.network]
    certain = point.sure is not None and point.found > 0 and 2 * point.sure >= point.found
    if point.others:
        ax.plot(x, point.share, "x", ms=7, mew=1.8, color=colour, zorder=4)
    else:
        shape, face = "^" if point.kept else "o", colour if certain else "white"
        ax.plot(x, point.share, shape, ms=6, mec=colour, mew=1.4, mfc=face, alpha=0.9)


def _legend() -> list[Line2D]:
    def mark(**style: Any) -> Line2D:
        return Line2D([], [], ls="", **style)

    kinds = [mark(marker="s", ms=6, color=colour, label=NAMES.get(name, name)) for name, colour in COLOURS.items()]
    grey = {"color": "#333333", "mew": 1.4, "ms": 6}
    return [
        *kinds,
        mark(marker="o", **grey, label="most of it surely"),
        mark(marker="o", **grey, mfc="white", label="not sure, or not asked"),
        mark(marker="^", **grey, mfc="white", label="the start outweighs training"),
        mark(marker="x", **grey, label="other images explain it too"),
    ]


def _noise_on_weights(ax: Axes, output: Any) -> None:
    """Median error of the direction of the missing image against ρ/d, at every size of image; the null; a bound on
    the mean squared error of Gaussian images, which these medians may cross."""
    sizes = sorted({row.dim for row in output.budgets})
    colours = [SERIES[k % len(SERIES)] for k in range(len(sizes))]
    null = [best_null(output, dim) for dim in sizes]
    ax.axhspan(min(null), max(null), color=HELD_OUT, alpha=0.15, lw=0)
    for k, (dim, colour) in enumerate(zip(sizes, colours, strict=True)):
        rows = [row for row in output.budgets if row.dim == dim]
        ax.plot([row.ratio for row in rows], [median(row.error) for row in rows], "o-", color=colour)
        at = (0.97, 0.92 - 0.1 * k)
        ax.text(*at, f"d = {dim}", color=colour, transform=ax.transAxes, ha="right", va="top")
    low, high = ax.get_xlim()
    ratios = np.geomspace(max(low, 1e-3), high, 200)
    ax.plot(ratios, [least_error(ratio, 1) for ratio in ratios], "--", color=REFERENCE, lw=1.4)
    ax.text(0.03, 0.04, "bound for\nGaussian\nimages, mean\nsquared error", color=REFERENCE, transform=ax.transAxes)
    ax.text(0.03, 0.41, "nearest other\nimage (null)", color=HELD_OUT, transform=ax.transAxes)
    ax.set(xscale="log", ylim=(-0.03, 1.1), xlabel="budget for each pixel, ρ / d", ylabel="1 − cos², median")
    ax.set_title("all images but one: noise on weights", loc="left")


def _noise_on_steps(ax: Axes, sgd: Any) -> None:
    """How often the right one of the candidates is named, against ε, and the bound."""
    rows = sorted(sgd.noises, key=lambda row: row.epsilon)
    epsilon = np.array([row.epsilon for row in rows])
    share = np.array([row.right / sgd.runs for row in rows])
    low, high = (np.array([getattr(row, name) for row in rows]) for name in ("low", "high"))
    ax.errorbar(epsilon, share, (share - low, high - share), fmt="o-", color=TRAIN, capsize=3)
    ax.plot(epsilon, [row.bound for row in rows], "--", color=REFERENCE, lw=1.4)
    ax.plot(epsilon, [sgd.kappa] * len(rows), ":", color=FREE, lw=1.6)
    ax.set(xscale="log", ylim=(0, 1), xlabel="ε", ylabel="right candidate named")
    ax.set_xticks(epsilon, [f"{value:.2g}" for value in epsilon])
    ax.minorticks_off()
    ax.set_title("noise on every step (DP-SGD)", loc="left")
    end_labels(ax, [(rows[-1].bound, "bound", REFERENCE), (share[-1], "attack", TRAIN), (sgd.kappa, "chance", FREE)])


__all__ = ["plot_map", "side_by_side"]
