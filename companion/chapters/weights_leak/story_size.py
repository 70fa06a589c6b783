"""Chapter 8's sentences: where separation ends, and what decides whether weights leak."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.chapters.pictures import FREE, PAGE, SERIES, TRAIN, Colour, chart, end_labels, heatmap, letters_on
from companion.chapters.weights_leak.experiment_size import MapSizes
from companion.chapters.weights_leak.experiment_size import Metrics as SizeMetrics
from companion.store.record import Record
from companion.store.results import Claim, Result


def claims(metrics: SizeMetrics, _: MapSizes) -> list[Claim]:
    """Where separation ends."""
    here = [cell for cell in metrics.widest() if cell.side == 32]
    shares = [cell.excess.ncc_07 / cell.n_train for cell in here]
    listed = ", ".join(f"{cell.matches.ncc_07} of {cell.n_train}" for cell in here)
    return [
        Claim(
            "separation-size",
            "",
            "Up to some number of images separation finds most of them; beyond it ever fewer.",
            "",
            f"above NCC 0.7 at width {here[0].width}: {listed}",
            "best null: " + ", ".join(str(cell.best_null.ncc_07) for cell in here),
            "finding" if max(shares) > 0.5 and shares[-1] < max(shares) / 2 else "not reproduced",
            value=max(shares),
            null_value=max(cell.best_null.ncc_07 / cell.n_train for cell in here),
        )
    ]


def share(cell: Record, counts: Record | None = None) -> float:
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


FIGURES = {"map": plot_map, "pixels": plot_pixels}
