"""Chapter 8's sentences: where separation ends, and what decides whether weights leak."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.pictures import PAGE, heatmap, letters_on
from companion.chapters.weights_leak.experiment_size import MapSizes
from companion.chapters.weights_leak.experiment_size import Metrics as SizeMetrics
from companion.store.record import Record
from companion.store.results import Claim, Result


def claims(metrics: SizeMetrics, _: MapSizes) -> list[Claim]:
    """Where separation ends."""
    here = metrics.widest()
    shares = [cell.excess.ncc_07 / cell.n_train for cell in here]
    listed = ", ".join(f"{cell.matches.ncc_07} of {cell.n_train}" for cell in here)
    return [
        claim(
            "separation-size",
            ours=f"above NCC 0.7 at width {here[0].width}: {listed}",
            null="best null: " + ", ".join(str(cell.best_null.ncc_07) for cell in here),
            verdict=(
                "finding"
                if max(shares) > 0.5 and shares[-1] < max(shares) / 2
                else "not reproduced"
            ),
            value=max(shares),
            null_value=max(cell.best_null.ncc_07 / cell.n_train for cell in here),
        )
    ]


def share(cell: Record, counts: Record | None = None) -> float:
    """Images above NCC 0.7 per training image: the excess over the best null, or another of its
    counts; at least 0.
    """
    return max((counts or cell.excess).ncc_07, 0) / cell.n_train


@heatmap
def plot_map(result: Result[SizeMetrics]) -> Figure:
    """Excess over the best null, as a share of the images, against their number and the width."""
    cells = result.metrics.cells
    frame = pd.DataFrame(
        [{"n": c.n_train, "width": c.width, "share": 100 * share(c)} for c in cells]
    )
    table = frame.pivot_table(index="width", columns="n", values="share").sort_index(
        ascending=False
    )
    figure, ax = plt.subplots(figsize=(PAGE, 0.5 * len(table) + 1.0), layout="constrained")
    shown = ax.imshow(table, cmap="viridis", vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        if np.isfinite(value):
            colour = letters_on(shown.to_rgba(value)[:3])
            ax.text(
                column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=11
            )
    figure.colorbar(shown, ax=ax, label="% of the images").outline.set_visible(False)
    ax.set_xticks(range(len(table.columns)), [str(n) for n in table.columns])
    ax.set_yticks(range(len(table.index)), [str(width) for width in table.index])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="training images n", ylabel="width of the first layer")
    return figure


FIGURES = {"map": plot_map}
