"""Figures of `leakage-limits`: through a residual block, and what a server reads that cheats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.chapters.leakage_common import LEAST
from companion.chapters.leakage_limits.metrics import Metrics
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    activations_in,
    chart,
    end_labels,
    image_rows,
)
from companion.store.results import Result

FOUND: dict[str, Any] = {"color": TRAIN, "mec": "none"}
BY_ADAM: dict[str, Any] = {"mfc": "none", "mec": SERIES[1]}


@chart
def plot_blocks(result: Result[Metrics]) -> Figure:
    """Error of every image behind a residual block, network by network: Gauss–Newton's (dots) and Adam's (rings)."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 0.42 * len(metrics.blocks) + 0.8))
    for y, row in enumerate(metrics.blocks):
        for errors, shift, style in ((row.mse, -0.13, FOUND), (row.matched, 0.13, BY_ADAM)):
            ax.plot(np.maximum(errors, LEAST), [y + shift] * len(errors), "o", ms=5, alpha=0.7, **style)
    ax.plot([], [], "o", ms=5, label="Gauss–Newton", **FOUND)
    ax.plot([], [], "o", ms=5, label="Adam", **BY_ADAM)
    ax.set_yticks(range(len(metrics.blocks)), [activations_in(row.name) for row in metrics.blocks])
    ax.set(xscale="log", xlabel="mean squared error", ylim=(len(metrics.blocks) - 0.5, -0.5))
    ax.axvline(float(np.mean(metrics.grey)), color=REFERENCE, linestyle="--", label="a grey image\n(null)")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def plot_server(result: Result[Metrics]) -> Figure:
    """Images of the largest batch, and the nearest candidate by the number of bins."""
    metrics = result.metrics
    n = max(row.n for row in metrics.imprint)
    bins = sorted({row.bins for row in metrics.imprint})
    rows = [(f"sent, in a\nbatch of {n}", result.array(f"sent {n} {bins[0]}"), "grey")]
    rows += [(f"{each} bins", result.array(f"read {n} {each}"), "black") for each in bins]
    return image_rows(rows)


@chart
def plot_bins(result: Result[Metrics]) -> Figure:
    """Share of a batch that is found against the number of bins, and what is expected."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    batches = sorted({row.n for row in result.metrics.imprint})
    ends: list[tuple[float, str, Colour]] = []
    for n, colour in zip(batches, SERIES, strict=False):
        rows = [row for row in result.metrics.imprint if row.n == n]
        bins = np.geomspace(min(row.bins for row in rows), max(row.bins for row in rows), 50)
        ax.plot(bins, (1 - 1 / bins) ** (n - 1), ":", color=colour)
        ax.plot([row.bins for row in rows], [row.found / n for row in rows], "o", color=colour)
        ends.append((max(rows, key=lambda row: row.bins).found / n, f"batch of {n}", colour))
    ax.set(xscale="log", xlabel="bins of the server's layer", ylabel="share of the batch that is found", ylim=(0, 1.05))
    end_labels(ax, ends)
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "blocks": plot_blocks,
    "server": plot_server,
    "bins": plot_bins,
}
