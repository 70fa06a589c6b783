"""Figures of chapter 7: where separation works, and which training leaves images in the first layer."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.pictures import FREE, PAGE, REFERENCE, SERIES, TRAIN, Colour, chart, end_labels, ink, letters_on
from recon.chapters.separation_common import NCCCounts
from recon.chapters.weights_leak.cells import KNOWN
from recon.chapters.weights_leak.claims import found_more
from recon.chapters.weights_leak.metrics import RecipeCell, RecipeMetrics, SizeCell, SizeMetrics
from recon.store.results import Result

Cell = SizeCell | RecipeCell

FAMILY_COLOURS = dict(zip(("SGD", "GD", "Adam", "AdamW", "SGD, other start"), SERIES, strict=False))


def share(cell: Cell, counts: NCCCounts | None = None) -> float:
    """Images above NCC 0.7 per training image: the excess over the best null, or another of its counts; at least 0."""
    return max((counts or cell.excess).ncc_07, 0) / cell.n_train


@chart
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


@chart
def plot_law(result: Result[RecipeMetrics]) -> Figure:
    """Images found against how much of the random start is left, relative to what training added."""
    cells = [cell for cell in result.metrics.of("decay", "start") if cell.known != KNOWN[2]]
    figure, ax = plt.subplots(figsize=(PAGE, 3.8))
    for cell in cells:
        colour = FAMILY_COLOURS[optimiser(cell.cell)]
        face = "white" if cell.known == KNOWN[1] else colour
        at = max(cell.start_over_update, 1e-4)
        ax.plot(at, share(cell), "o", ms=8, mfc=face, mec=colour, mew=1.8)
    handles = [plt.Line2D([], [], marker="o", ls="", color=c, label=name) for name, c in FAMILY_COLOURS.items()]
    handles.append(plt.Line2D([], [], marker="o", ls="", mfc="white", mec="#444444", label="start known"))
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5))
    ax.set(
        xscale="log",
        xlabel="random start still in the layer / what training added",
        ylabel="share of the images above\nthe best null, NCC 0.7",
        ylim=(-0.03, 1.03),
    )
    return figure


def optimiser(name: str) -> str:
    """Which colour a cell has."""
    first = name.split(",")[0]
    if first in FAMILY_COLOURS:
        return first
    return "Adam" if name.endswith("Adam") else "SGD, other start"


@chart
def plot_recipes(result: Result[RecipeMetrics], families: tuple[str, ...] = ("stop", "task", "data")) -> Figure:
    """Each recipe: images found (dot), the best null (ring), and accuracy on other images."""
    cells = [cell for cell in result.metrics.of(*families) if cell.known == KNOWN[0]]
    figure, ax = plt.subplots(figsize=(PAGE, 0.3 * max(len(cells), 2) + 1.0))
    if not cells:
        ax.text(0.5, 0.5, "none of these at this profile", ha="center", transform=ax.transAxes)
    for y, cell in enumerate(reversed(cells)):
        _dumbbell(ax, y, cell)
    ax.set_yticks(range(len(cells)), [label(cell) for cell in reversed(cells)])
    ax.set(xlabel="training images above NCC 0.7, of 100", xlim=(-3, 118), ylim=(-0.7, len(cells) + 0.5))
    if cells:
        ax.text(118, len(cells) - 0.35, "accuracy", color=REFERENCE, ha="right")
        found, null = 100 * share(cells[0], cells[0].matches), 100 * share(cells[0], cells[0].best_null)
        if abs(found - null) > 25:
            ax.text(found, len(cells) - 0.75, "found", color=ink(TRAIN), ha="center")
            ax.text(max(null, 5), len(cells) - 0.75, "best null", color=ink(FREE), ha="center")
    return figure


def _dumbbell(ax: Axes, y: int, cell: RecipeCell) -> None:
    found, null = 100 * share(cell, cell.matches), 100 * share(cell, cell.best_null)
    ax.plot([null, found], [y, y], color="#bbbbbb", lw=2, zorder=1)
    ax.plot(null, y, "o", ms=8, mfc="white", mec=FREE, mew=1.8)
    ax.plot(found, y, "o", ms=8, color=TRAIN)
    if cell.test_accuracy is not None:
        ax.text(118, y, f"{cell.test_accuracy:.0%}", va="center", ha="right", color=REFERENCE)


def label(cell: RecipeCell) -> str:
    """A cell's name, as it stands in the table."""
    return cell.cell.replace("base, ", "base recipe, ")


def table(result: Result[RecipeMetrics], family: str) -> pd.DataFrame:
    """The cells of a family as rows; of one whose training diverged the name alone."""
    rows: list[dict[str, object]] = [
        {
            "recipe": label(cell),
            "start": cell.known,
            "Σ": "–" if cell.erased is None else ("≤ " if cell.cell == "early stopping" else "") + f"{cell.erased:.2f}",
            "start left": "–" if "DP-SGD" in cell.cell else f"{cell.start_left:.2f}",
            "found": cell.matches.ncc_07,
            "best null": cell.best_null.ncc_07,
            "sure (true)": f"{cell.certainty.sure} ({cell.certainty.true_among_sure})",
            "accuracy": "–" if cell.test_accuracy is None else f"{cell.test_accuracy:.0%}",
        }
        for cell in result.metrics.of(family)
    ]
    lost = [name.split("/", 1)[1] for name in result.metrics.diverged if name.startswith(f"{family}/")]
    rows += [{"recipe": f"{name} (training diverged)"} for name in lost]
    shown = pd.DataFrame(rows, dtype=object).fillna("–") if lost else pd.DataFrame(rows)
    return shown.set_index("recipe") if rows else shown


def sets_table(results: list[Result[RecipeMetrics]]) -> pd.DataFrame:
    """Networks from PyTorch's own start, unknown to the adversary, by how much decay has erased: what was found on
    every set of images, in brackets the best null, and on how many sets that is more than chance."""
    by_set = [{c.cell: c for c in each.metrics.of("decay") if c.known == KNOWN[0]} for each in results]
    cells = [cell for cell in by_set[0].values() if cell.erased is not None]
    rows = {}
    for cell in sorted(cells, key=lambda cell: cell.erased or 0.0, reverse=True):
        same = [each[cell.cell] for each in by_set if cell.cell in each]
        rows[cell.cell] = {
            "Σ": f"{cell.erased:.2f}",
            "found (best null) on each set": ", ".join(f"{c.matches.ncc_07} ({c.best_null.ncc_07})" for c in same),
            "directions searched": ", ".join(str(c.rank) for c in same),
            "above the best null": f"{sum(map(found_more, same))} of {len(same)}",
        }
    return pd.DataFrame(rows).T.rename_axis("recipe")


SIZE_FIGURES: dict[str, Callable[[Result[SizeMetrics]], Figure]] = {"map": plot_map, "pixels": plot_pixels}
RECIPE_FIGURES: dict[str, Callable[[Result[RecipeMetrics]], Figure]] = {"law": plot_law, "recipes": plot_recipes}
