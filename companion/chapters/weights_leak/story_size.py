"""Chapter 8's sentences: where separation ends, and what decides whether weights leak."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from scipy.stats import fisher_exact

from companion.chapters.claims import claim
from companion.chapters.pictures import PAGE, heatmap
from companion.chapters.weights_leak.experiment_size import MapSizes
from companion.chapters.weights_leak.experiment_size import Metrics as SizeMetrics
from companion.chapters.yardstick import LEVEL
from companion.store.record import Record
from companion.store.results import Claim, Result, graded


def claims(metrics: SizeMetrics, _: MapSizes) -> list[Claim]:
    """Where separation ends, and whether it reads more out of more parameters."""
    here = metrics.widest()
    shares = [cell.excess.ncc_07 / cell.n_train for cell in here]
    return [
        claim(
            "separation-size",
            {"width": here[0].width, "cells": here, "last": here[-1]},
            verdict=(
                "finding"
                if max(shares) > 0.5 and shares[-1] < max(shares) / 2
                else "not reproduced"
            ),
            value=max(shares),
            null_value=max(cell.best_null.ncc_07 / cell.n_train for cell in here),
        ),
        more_parameters(metrics.cells),
    ]


def more_parameters(cells: list[Record]) -> Claim:
    """At least N·K weights in the first layer, K in each of its `width` rows, against fewer:
    where the map has both for a number of images, the least of the one kind against the most of the
    other, beyond their nulls, by Fisher's exact test. Undecided where it never has.
    """
    rows = []
    for n in sorted({cell.n_train for cell in cells}):
        here = [cell for cell in cells if cell.n_train == n]
        most = [cell.excess.ncc_07 for cell in here if cell.width >= n]
        fewer = [cell.excess.ncc_07 for cell in here if cell.width < n]
        if most and fewer:
            pair = [max(min(most), 0), max(*fewer, 0)]
            p_value = fisher_exact([(k, n - k) for k in pair], alternative="greater").pvalue
            rows.append({"n": n, "most": pair[0], "fewer": pair[1], "p": float(p_value)})
    holds = graded(*(row["p"] < LEVEL for row in rows), best="reproduced")
    return claim("more-parameters", {"rows": rows}, verdict=holds if rows else "undecided")


def share(cell: Record, counts: Record | None = None) -> float:
    """Images above NCC 0.7 per training image: the excess over the best null, or another of its
    counts; at least 0.
    """
    return max((counts or cell.excess).ncc_07, 0) / cell.n_train


@heatmap
def plot_map(result: Result[SizeMetrics]) -> Figure:
    """Excess over the best null, as a share of the images, against their number and the width."""
    cells = [(c.width, c.n_train, 100 * share(c)) for c in result.metrics.cells]
    table = pd.DataFrame(cells).pivot_table(index=0, columns=1, values=2)[::-1]
    figure, ax = plt.subplots(figsize=(PAGE, 0.5 * len(table) + 1.0), layout="constrained")
    bar = {"label": "% of the images"}
    sns.heatmap(table, vmin=0, vmax=100, cmap="viridis", annot=True, fmt=".0f", ax=ax, cbar_kws=bar)
    ax.set(xlabel="training images n", ylabel="width of the first layer")
    ax.tick_params(length=0, labelrotation=0)
    return figure


FIGURES = {"map": plot_map}
