"""Figures of chapter 7: where separation works, and which training leaves images in the first layer."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.pictures import FREE, TRAIN, on_white
from recon.chapters.separation_common import NCCCounts
from recon.chapters.weights_leak.cells import KNOWN
from recon.chapters.weights_leak.metrics import RecipeCell, RecipeMetrics, SizeCell, SizeMetrics
from recon.store.results import Result

Cell = SizeCell | RecipeCell

FAMILY_COLOURS = dict(
    zip(("SGD", "GD", "Adam", "AdamW", "SGD, other start"), sns.color_palette("colorblind", 5), strict=True)
)


def share(cell: Cell, counts: NCCCounts | None = None) -> float:
    """Images above NCC 0.7 per training image: the excess over the best null, or another of its counts; at least 0."""
    return max((counts or cell.excess).ncc_07, 0) / cell.n_train


def plot_map(result: Result[SizeMetrics]) -> Figure:
    """Excess over the best null, as a share of the images, against their number and the width."""
    cells = [cell for cell in result.metrics.of("cifar") if cell.side == 32]
    frame = pd.DataFrame([{"n": c.n_train, "width": c.width, "share": share(c)} for c in cells])
    table = frame.pivot_table(index="width", columns="n", values="share").sort_index(ascending=False)
    figure, ax = plt.subplots(figsize=(8, 0.6 * len(table) + 1.6))
    sns.heatmap(
        100 * table,
        annot=True,
        fmt=".0f",
        cmap="viridis",
        vmin=0,
        vmax=100,
        ax=ax,
        annot_kws={"fontsize": 12},
        cbar_kws={"label": "% of the images"},
    )
    ax.set(xlabel="training images n", ylabel="width of the first layer")
    figure.tight_layout()
    return on_white(figure)


def plot_pixels(result: Result[SizeMetrics]) -> Figure:
    """Left: CIFAR-10 averaged down.  Right: the same photographs in more pixels."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True)
    cifar = result.metrics.widest()
    sides = sorted({c.side for c in cifar})
    for side, colour in zip(sides, sns.color_palette("viridis", len(sides)), strict=True):
        line = sorted((c.n_train, share(c)) for c in cifar if c.side == side)
        axes[0].plot(*zip(*line, strict=True), "o-", color=colour)
        axes[0].annotate(f"{side} × {side}", line[-1], (5, 0), textcoords="offset points", color=colour, fontsize=11)
    axes[0].set(xlabel="training images n", ylabel="share above the best null", ylim=(0, 1.05))
    axes[0].margins(x=0.16)
    photographs = sorted(
        (c.side, share(c, c.matches), share(c), share(c, c.best_null)) for c in result.metrics.of("photographs")
    )
    widths, found, excess, null = zip(*photographs, strict=True)
    for values, label, colour in (
        (found, "found", TRAIN),
        (excess, "above the best null", "#111111"),
        (null, "best null", FREE),
    ):
        axes[1].plot(widths, values, "o-", color=colour)
        axes[1].annotate(
            label, (widths[-1], values[-1]), (-6, 7), textcoords="offset points", color=colour, fontsize=11, ha="right"
        )
    axes[1].set(xlabel="side of the photograph in pixels", xticks=widths)
    sns.despine(figure)
    figure.tight_layout()
    return on_white(figure)


def by_pixels(result: Result[SizeMetrics]) -> tuple[str, str]:
    """Counts at NCC 0.7 against the side, in words: CIFAR-10 at up to 100 images, and the photographs, with the number
    of directions that stand out of the layer."""
    cifar = result.metrics.widest()
    n = max(c.n_train for c in cifar if c.n_train <= 100)
    first = sorted((c for c in cifar if c.n_train == n), key=lambda c: c.side)
    second = result.metrics.of("photographs")
    return ", ".join(map(_count, first)), ", ".join(f"{_count(c)}, {c.rank} directions" for c in second)


def _count(cell: SizeCell) -> str:
    null = cell.best_null.ncc_07
    return f"{cell.matches.ncc_07} of {cell.n_train} at {cell.side} × {cell.side} (null {null})"


def plot_law(result: Result[RecipeMetrics]) -> Figure:
    """Images found against how much of the random start is left, relative to what training added."""
    cells = [cell for cell in result.metrics.of("decay", "start") if cell.known != KNOWN[2]]
    figure, ax = plt.subplots(figsize=(8, 4.2))
    for cell in cells:
        colour = FAMILY_COLOURS[optimiser(cell.cell)]
        known = cell.known == KNOWN[1]
        ax.plot(
            max(cell.start_over_update, 1e-4),
            share(cell),
            "o",
            ms=9,
            mfc="white" if known else colour,
            mec=colour,
            mew=1.8,
        )
    handles = [plt.Line2D([], [], marker="o", ls="", color=c, label=name) for name, c in FAMILY_COLOURS.items()]
    handles.append(plt.Line2D([], [], marker="o", ls="", mfc="white", mec="#444444", label="start known"))
    ax.legend(handles=handles, fontsize=10, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    ax.set(
        xscale="log",
        xlabel="random start still in the layer / what training added",
        ylabel="share of the images above\nthe best null, NCC 0.7",
        ylim=(-0.03, 1.03),
    )
    sns.despine(figure)
    figure.tight_layout()
    return on_white(figure)


def optimiser(name: str) -> str:
    """Which colour a cell has."""
    first = name.split(",")[0]
    if first in FAMILY_COLOURS:
        return first
    return "Adam" if name.endswith("Adam") else "SGD, other start"


def plot_recipes(result: Result[RecipeMetrics], families: tuple[str, ...] = ("stop", "task", "data")) -> Figure:
    """Each recipe: images found (dot), the best null (ring), and accuracy on other images."""
    cells = [cell for cell in result.metrics.of(*families) if cell.known == KNOWN[0]]
    figure, ax = plt.subplots(figsize=(8.5, 0.34 * max(len(cells), 2) + 1.0))
    if not cells:
        ax.text(0.5, 0.5, "none of these at this profile", ha="center", transform=ax.transAxes)
    for y, cell in enumerate(reversed(cells)):
        _dumbbell(ax, y, cell)
    ax.set_yticks(range(len(cells)), [label(cell) for cell in reversed(cells)], fontsize=11)
    ax.set(xlabel="training images above NCC 0.7, of 100 (filled: separation; ring: best null)", xlim=(-3, 118))
    ax.text(104, len(cells) - 0.4, "accuracy", fontsize=10, color="#555555")
    ax.set_ylim(-0.7, len(cells) + 0.3)
    sns.despine(figure)
    figure.tight_layout()
    return on_white(figure)


def _dumbbell(ax: Axes, y: int, cell: RecipeCell) -> None:
    found, null = 100 * share(cell, cell.matches), 100 * share(cell, cell.best_null)
    ax.plot([null, found], [y, y], color="#bbbbbb", lw=2, zorder=1)
    ax.plot(null, y, "o", ms=8, mfc="white", mec=FREE, mew=1.8)
    ax.plot(found, y, "o", ms=8, color=TRAIN)
    if cell.test_accuracy is not None:
        ax.text(106, y, f"{cell.test_accuracy:.0%}", va="center", fontsize=10, color="#555555")


def label(cell: RecipeCell) -> str:
    """A cell's name, as it stands in the table."""
    return cell.cell.replace("base, ", "base recipe, ")


def table(result: Result[RecipeMetrics], family: str) -> pd.DataFrame:
    """The cells of a family as rows."""
    rows = [
        {
            "recipe": label(cell),
            "start": cell.known,
            "Σ": "–" if cell.erased is None else f"{cell.erased:.2f}",
            "start left": f"{cell.start_left:.2f}",
            "found": cell.matches.ncc_07,
            "best null": cell.best_null.ncc_07,
            "sure (true)": f"{cell.certainty.sure} ({cell.certainty.true_among_sure})",
            "accuracy": "–" if cell.test_accuracy is None else f"{cell.test_accuracy:.0%}",
        }
        for cell in result.metrics.of(family)
    ]
    return pd.DataFrame(rows).set_index("recipe") if rows else pd.DataFrame()


SIZE_FIGURES: dict[str, Callable[[Result[SizeMetrics]], Figure]] = {"map": plot_map, "pixels": plot_pixels}
RECIPE_FIGURES: dict[str, Callable[[Result[RecipeMetrics]], Figure]] = {"law": plot_law, "recipes": plot_recipes}
