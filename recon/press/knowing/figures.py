"""The map of knowing, drawn: what comes out against how much is told, and what noise leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recon.chapters.pictures import FREE, PAGE, REFERENCE, SERIES, TRAIN, chart, end_labels
from recon.press.knowing.point import DENSE, KNOWLEDGE, NETWORKS, Point

COLOURS = dict(zip(NETWORKS, (SERIES[3], SERIES[1], TRAIN, SERIES[4], SERIES[6], SERIES[5]), strict=True))
NAMES = {DENSE: "two to five hidden layers"}
SPREAD = 0.16  # decades over which points at one place are drawn side by side


@chart
def plot_map(points: Sequence[Point]) -> Figure:
    """One panel a kind of knowledge: share of the missing images beyond the best null, against p / (d m)."""
    figure, axes = plt.subplots(len(KNOWLEDGE), 1, figsize=(PAGE, 8.6), sharex=True)
    for ax, knowledge in zip(axes, KNOWLEDGE, strict=True):
        here = [point for point in points if point.knowledge == knowledge]
        ax.axvline(1, color=REFERENCE, lw=0.8, ls=":")
        for point, x in zip(here, side_by_side([point.told for point in here]), strict=True):
            _draw(ax, point, x)
        ax.set(xscale="log", xlim=(6e-4, 3e2), ylim=(-0.12, 1.12), yticks=(0, 0.5, 1))
        ax.set_title(knowledge, loc="left", pad=3)
    axes[-1].set_xlabel("numbers released for each number that is missing, p / (d m)")
    axes[len(KNOWLEDGE) // 2].set_ylabel("share of the missing images, beyond the best null")
    figure.legend(handles=_legend(), loc="upper center", ncols=3, handletextpad=0.2, columnspacing=1.0)
    figure.tight_layout(pad=0.4, rect=(0, 0, 1, 0.905))
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


@chart
def plot_noise(output: Any, sgd: Any) -> Figure:
    """All images but one are known, and noise is added.  Left: to the weights, once; median error of the direction of
    the missing image against ρ/d.  Right: to every step; how often the right one of eight candidates is named, against
    ε, and the bound.  output, sgd: metrics of informed-output and informed-sgd."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.0))
    ends = []
    for dim, colour in zip(sorted({row.dim for row in output.budgets}), SERIES, strict=False):
        rows = [row for row in output.budgets if row.dim == dim]
        errors = [median(row.error) for row in rows]
        left.plot([row.ratio for row in rows], errors, "o-", color=colour)
        ends.append((errors[0], f"d = {dim}", colour))
    null = median(value for row in output.nulls for value in row.mean)
    left.axhline(null, color=FREE, ls="--", lw=1.2)
    left.set(xscale="log", ylim=(-0.03, 1.1), xlabel="budget for each pixel, ρ / d", ylabel="1 − cos², median")
    left.set_title("noise on the weights of a regression", loc="left")
    for (_, label, colour), at in zip(ends, (0.62, 0.5, 0.38), strict=False):
        left.text(0.04, at - 0.1, label, color=colour, transform=left.transAxes)
    left.text(0.96, 0.86, "mean image (null)", color=FREE, transform=left.transAxes, ha="right")
    rows = sorted(sgd.noises, key=lambda row: row.epsilon)
    epsilon = np.array([row.epsilon for row in rows])
    share = np.array([row.right / sgd.runs for row in rows])
    low, high = (np.array([getattr(row, name) for row in rows]) for name in ("low", "high"))
    right.errorbar(epsilon, share, (share - low, high - share), fmt="o-", color=TRAIN, capsize=3)
    right.plot(epsilon, [row.bound for row in rows], "--", color=REFERENCE, lw=1.4)
    right.plot(epsilon, [sgd.kappa] * len(rows), ":", color=FREE, lw=1.6)
    right.set(xscale="log", ylim=(0, 1), xlabel="ε", ylabel="right candidate named")
    right.set_xticks(epsilon, [f"{value:.2g}" for value in epsilon])
    right.minorticks_off()
    right.set_title("noise on every step of DP-SGD", loc="left")
    end_labels(right, [(rows[-1].bound, "bound", REFERENCE), (share[-1], "attack", TRAIN), (sgd.kappa, "chance", FREE)])
    return figure


__all__ = ["plot_map", "plot_noise", "side_by_side"]
