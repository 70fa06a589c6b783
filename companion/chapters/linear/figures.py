"""Figures of the linear chapter: unknowns against equations, and two training sets of one classifier."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.linear.metrics import Metrics
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, chart, image_rows, note
from companion.store.results import Result


def plot_twins(result: Result[Metrics], n: int = 10) -> Figure:
    """Training images · other photographs · what they became (black frame) · difference, amplified around grey."""
    train, start, other = (result.array(f"twin_{name}").double() / 255 for name in ("train", "start", "other"))
    rows = torch.linspace(0, len(train) - 1, n).round().long()
    difference = (other - start)[rows]
    factor = _round_factor(0.5 / float(difference.abs().quantile(0.995)))
    change = [f"{255 * d:.1f}" for d in difference.abs().mean(1)]
    return image_rows(
        [
            ("training\nimages", train[rows], "none"),
            ("other\nphotographs", start[rows], "none"),
            ("the twins,\n8 bits, moved\nby (of 255)", other[rows], "black"),
            (f"difference\n× {factor}", 0.5 + factor * difference, "none"),
        ],
        [[], [], change, []],
    )


@chart
def plot_counting(result: Result[Metrics]) -> Figure:
    """Unknown pixel values against equations, logarithmic, for three networks: a row each, with its number."""
    rows = result.metrics.counting
    figure, axes = plt.subplots(len(rows), 1, figsize=(PAGE, 1.15 * len(rows) + 0.3), sharex=True)
    for ax, row in zip(axes, rows, strict=True):
        counts = (
            ("unknowns N·K", SERIES[1], row.unknowns),
            ("equations, one a parameter", SERIES[0], row.stationarity),
            ("equations of a perfect fit, L·N", REFERENCE, row.perfect_fit),
        )
        ax.plot([row.stationarity, row.unknowns], [1, 0], color="#cccccc", lw=1, zorder=1)
        for y, (_, colour, value) in enumerate(counts):
            ax.plot(value, y, "o", color=colour, markersize=7)
            note(ax, f"{value:,}", (value, y), (8, 0), colour)
        ax.set_yticks(range(len(counts)), [label for label, _, _ in counts])
        ax.set(xscale="log", xlim=(10, 3e9), ylim=(2.6, -0.6))
        ax.set_title(row.name, loc="left")
    axes[-1].set_xlabel("unknown pixel values, or scalar equations")
    return figure


def _round_factor(factor: float) -> int:
    """1, 2, 5, 10, 20, 50, … nearest below."""
    steps = [m * 10**e for e in range(5) for m in (1, 2, 5)]
    return max([s for s in steps if s <= factor], default=1)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"counting": plot_counting, "twins": plot_twins}
