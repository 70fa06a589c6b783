"""Figures of chapter 8: where separation works, and which training leaves images in the first layer."""

from __future__ import annotations

import math
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.chapters.pictures import (
    FREE,
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    chart,
    end_labels,
    heatmap,
    ink,
    letters_on,
    note,
)
from companion.chapters.separation_common import NCCCounts
from companion.chapters.weights_leak.cells import KNOWN
from companion.chapters.weights_leak.metrics import RecipeCell, RecipeMetrics, SizeCell, SizeMetrics
from companion.store.results import Result

Cell = SizeCell | RecipeCell

AUGMENTED = ("flips", "shifts", "flips and shifts")
NAMED = {"tabular": "a table of numbers"}
#: row -> cell
DEFENCES = {
    "base recipe": "base",
    **{name: name for name in (*AUGMENTED, "dropout 0.5", "early stopping")},
    **{f"noise {sigma} on the weights": f"noise {sigma} on the weights" for sigma in ("0.1", "0.3", "1")},
    "small start, few steps": "small start, short",
    **{f"the same by DP-SGD, ε = {e}": f"small start, short, DP-SGD, ε = {e}" for e in (100, 8, 3, 1)},
}


def share(cell: Cell, counts: NCCCounts | None = None) -> float:
    """Images above NCC 0.7 per training image: the excess over the best null, or another of its counts; at least 0."""
    return max((counts or cell.excess).ncc_07, 0) / cell.n_train


@heatmap
def plot_map(result: Result[SizeMetrics]) -> Figure:
    """Excess over the best null, as a share of the images, against their number and the width."""
    cells = [cell for cell in result.metrics.of("cifar") if cell.side == 32]
    frame = pd.DataFrame([{"n": c.n_train, "width": c.width, "share": 100 * share(c)} for c in cells])
    table = frame.pivot_table(index="width", columns="n", values="share").sort_index(ascending=False)
    figure, ax = plt.subplots(figsize=(PAGE, 0.5 * len(table) + 1.0), layout="constrained")
    shown = ax.imshow(table, cmap="viridis", vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        if np.isfinite(value):
            colour = letters_on(shown.to_rgba(value)[:3])
            ax.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=11)
    figure.colorbar(shown, ax=ax, label="% of the images").outline.set_visible(False)
    ax.set_xticks(range(len(table.columns)), [str(n) for n in table.columns])
    ax.set_yticks(range(len(table.index)), [str(width) for width in table.index])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="training images n", ylabel="width of the first layer")
    return figure


@chart
def plot_pixels(result: Result[SizeMetrics]) -> Figure:
    """Above: CIFAR-10 averaged down.  Below: the same photographs in more pixels."""
    figure, axes = plt.subplots(2, 1, figsize=(PAGE, 6.2))
    cifar = result.metrics.widest()
    sides = sorted({c.side for c in cifar})
    ends: list[tuple[float, str, Colour]] = []
    for side, colour in zip(sides, SERIES, strict=False):
        line = sorted((c.n_train, share(c)) for c in cifar if c.side == side)
        axes[0].plot(*zip(*line, strict=True), "o-", color=colour)
        ends.append((line[-1][1], f"{side} × {side}", colour))
    axes[0].set(xlabel="training images n", ylabel="share above the best null", ylim=(-0.02, 1.05))
    end_labels(axes[0], ends)
    photographs = sorted(
        (c.side, share(c, c.matches), share(c), share(c, c.best_null)) for c in result.metrics.of("photographs")
    )
    widths, found, excess, null = zip(*photographs, strict=True)
    ends = []
    for values, label, colour in (
        (found, "found", TRAIN),
        (excess, "above the\nbest null", SERIES[0]),
        (null, "best null", FREE),
    ):
        axes[1].plot(widths, values, "o-", color=colour)
        ends.append((values[-1], label, colour))
    axes[1].set(
        xlabel="side of the photograph in pixels", ylabel="share of the images", xticks=widths, ylim=(-0.02, 1.05)
    )
    end_labels(axes[1], ends)
    return figure


@chart
def plot_erased(*results: Result[RecipeMetrics]) -> Figure:
    """Images found against Σ, by which weight decay has erased the start; a mark is a network, of every result."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    cells = [c for each in results for c in each.metrics.of("decay") if c.erased is not None and c.known != KNOWN[2]]
    groups = {
        "gradient descent": (TRAIN, [c for c in cells if not _bent(c) and c.known == KNOWN[0]]),
        "gradient descent, start known": (TRAIN, [c for c in cells if not _bent(c) and c.known == KNOWN[1]]),
        "AdamW": (SERIES[3], [c for c in cells if _bent(c) and c.known == KNOWN[0]]),
        "Adam, start known": (SERIES[3], [c for c in cells if _bent(c) and c.known == KNOWN[1]]),
    }
    most = max(math.sqrt(c.erased or 0.0) for c in cells) or 1.0
    for words, (colour, group) in groups.items():
        x = [math.sqrt(c.erased or 0.0) + (0.012 if _bent(c) else 0.0) * most for c in group]
        y = [100 * share(c, c.matches) for c in group]
        ax.plot(x, y, "o", ms=7, mfc="white" if "known" in words else colour, mec=colour, mew=1.6)
        if group:
            at = max(zip(x, y, strict=True))
            right = at[0] < most / 2 or words == "AdamW"
            note(ax, words, at, (9, 0) if right else (-9, 0), colour, ha="left" if right else "right")
    null = max(100 * share(c, c.best_null) for c in cells)
    ax.axhline(null, color=FREE, ls=":", lw=1.4, zorder=0)
    note(ax, "highest null", (0.36 * most, null), (0, 7), FREE)
    sums = sorted({round(c.erased or 0.0, 1 if (c.erased or 0.0) < 0.1 else 2) for c in cells})
    ax.set_xticks([math.sqrt(each) for each in sums], [f"{each:g}" for each in sums])
    ax.set(xlabel="Σ lr · decay / (1 − momentum)", ylabel="training images found, %", ylim=(-3, 103))
    return figure


def _bent(cell: RecipeCell) -> bool:
    """Whether every weight has had a step size of its own."""
    return cell.cell.startswith("Adam")


@chart
def plot_recipes(result: Result[RecipeMetrics]) -> Figure:
    """Other losses, tasks and data: images found (dot), the best null (ring), and accuracy on other images."""
    cells = {c.loss: c for c in reversed(result.metrics.of("stop"))}  # of two that stopped at one step, the first
    others = [c for c in result.metrics.of("task") if c.cell not in (*AUGMENTED, "base")]
    return _rows(
        [(NAMED.get(c.cell, c.cell), c) for c in [*reversed(cells.values()), *others, *result.metrics.of("data")]]
    )


@chart
def plot_defences(result: Result[RecipeMetrics]) -> Figure:
    """The base recipe and what may stop the attack on it; drawn as `plot_recipes` draws."""
    at = {c.cell: c for c in result.metrics.of("task", "defence")}
    return _rows([(words, at[name]) for words, name in DEFENCES.items() if name in at])


def _rows(rows: list[tuple[str, RecipeCell]]) -> Figure:
    figure, ax = plt.subplots(figsize=(PAGE, 0.3 * max(len(rows), 2) + 1.0))
    if not rows:
        ax.text(0.5, 0.5, "none of these at this profile", ha="center", transform=ax.transAxes)
    for y, (_, cell) in enumerate(reversed(rows)):
        _dumbbell(ax, y, cell)
    ax.set_yticks(range(len(rows)), [words for words, _ in reversed(rows)])
    ax.set(xlabel="training images found, of 100", xlim=(-3, 118), ylim=(-0.7, len(rows) + 0.5))
    if rows:
        ax.text(118, len(rows) - 0.35, "accuracy", color=REFERENCE, ha="right")
        found, null = 100 * share(rows[0][1], rows[0][1].matches), 100 * share(rows[0][1], rows[0][1].best_null)
        if abs(found - null) > 25:
            ax.text(found, len(rows) - 0.75, "found", color=ink(TRAIN), ha="center")
            ax.text(max(null, 5), len(rows) - 0.75, "best null", color=ink(FREE), ha="center")
    return figure


def _dumbbell(ax: Axes, y: int, cell: RecipeCell) -> None:
    found, null = 100 * share(cell, cell.matches), 100 * share(cell, cell.best_null)
    ax.plot([null, found], [y, y], color="#bbbbbb", lw=2, zorder=1)
    ax.plot(null, y, "o", ms=8, mfc="white", mec=FREE, mew=1.8)
    ax.plot(found, y, "o", ms=8, color=TRAIN)
    if cell.test_accuracy is not None:
        ax.text(118, y, f"{cell.test_accuracy:.0%}", va="center", ha="right", color=REFERENCE)


SIZE_FIGURES: dict[str, Callable[[Result[SizeMetrics]], Figure]] = {"map": plot_map, "pixels": plot_pixels}
RECIPE_FIGURES: dict[str, Callable[[Result[RecipeMetrics]], Figure]] = {
    "erased": plot_erased,
    "recipes": plot_recipes,
    "defences": plot_defences,
}
