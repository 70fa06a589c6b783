"""Figures of `leakage-limits`: through a residual block, and what a server reads that cheats."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from recon.chapters.leakage_limits.metrics import Block, Metrics
from recon.chapters.pictures import PAGE, SERIES, Colour, activations_in, beside_grey, chart, end_labels, image_rows
from recon.store.results import Result


def plot_blocks(result: Result[Metrics]) -> Figure:
    """Images, and what Gauss–Newton found of them, network by network."""
    found = [
        (activations_in(row.name.replace(", ", ",\n", 1)), result.array(f"x_hat {row.name}")[:6].clamp(0, 1))
        for row in result.metrics.blocks
    ]
    return beside_grey(result.array("truth")[:6], found)


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


def near(row: Block, grey: list[float]) -> int:
    """Images whose error is below a tenth of a grey image's."""
    return sum(error < plain / 10 for error, plain in zip(row.mse, grey, strict=True))


def block_table(metrics: Metrics) -> pd.DataFrame:
    """Network by network."""
    return pd.DataFrame(
        {
            row.name: {
                "rank": f"{row.rank} of {row.unknowns}",
                "found": f"{row.found} of {len(row.mse)}",
                "known": row.known,
                "error": f"{np.mean(row.mse):.2g}",
                "Adam's": f"{np.mean(row.matched):.2g}",
                "grey's": f"{np.mean(metrics.grey):.2g}",
                "near": near(row, metrics.grey),
            }
            for row in metrics.blocks
        }
    ).T


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "blocks": plot_blocks,
    "server": plot_server,
    "bins": plot_bins,
}
