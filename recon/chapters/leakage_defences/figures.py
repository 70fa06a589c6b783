"""Figures of chapter 17: error against noise with its prediction, images, compression."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from recon.chapters.leakage_defences.metrics import Metrics
from recon.chapters.leakage_defences.sizes import SMALL
from recon.chapters.pictures import FREE, PAGE, REFERENCE, SERIES, Colour, beside_grey, chart, end_labels, note
from recon.store.results import Result


@chart
def plot_noise(result: Result[Metrics]) -> Figure:
    """Error of the most probable image against z, every image a dot, and what the adversary predicts (lines)."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 4))
    order = [*(name for name in SMALL if name in metrics.noise), *(name for name in metrics.noise if name not in SMALL)]
    for name, colour in zip(order, SERIES, strict=False):
        rows = metrics.noise[name]
        z, predicted = [row.z for row in rows], [float(np.mean(row.predicted)) for row in rows]
        ax.plot(z, predicted, color=colour, label=name)
        for row in rows:
            ax.plot([row.z] * len(row.mse), row.mse, ".", color=colour, alpha=0.6)
        if rows[0].rgap is not None:
            ax.plot(z, [float(np.mean(row.rgap or [])) for row in rows], ":", color=colour)
    grey = float(np.mean(metrics.grey[SMALL[0]]))
    ax.axhline(grey, color=REFERENCE, linestyle="--", label="a grey image")
    private = [row.z for row in metrics.privacy if row.training <= 8]
    if private:
        ax.axvspan(min(private), max(row.z for row in metrics.privacy) * 1.3, color=FREE, alpha=0.12, linewidth=0)
    ax.plot([], [], ":", color=REFERENCE, label="R-GAP, by colour")
    ax.set(xscale="log", yscale="log", ylim=(None, 3), xlabel="noise multiplier z", ylabel="mean squared error")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def plot_images(result: Result[Metrics]) -> Figure:
    """The images of the fully connected network under more and more noise."""
    name, rows = SMALL[1], result.metrics.noise[SMALL[1]]
    shown = [(f"z = {row.z:g}", result.array(f"x_hat {name} {row.z:g}")[:6].clamp(0, 1)) for row in rows]
    return beside_grey(
        result.array(f"truth {name}")[:6], [*shown, (f"signs alone,\n{SMALL[0]}", result.array("signs")[:6])]
    )


@chart
def plot_compressed(result: Result[Metrics]) -> Figure:
    """Error against the share of the entries that is left."""
    rows = result.metrics.compressed
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    ends: list[tuple[float, str, Colour]] = []
    for key, style, label, colour in (
        ("largest_mse", "-o", "the largest", SERIES[0]),
        ("random_mse", "--s", "random ones", SERIES[1]),
    ):
        values = [max(getattr(row, key), 1e-32) for row in rows]
        ax.plot([row.share for row in rows], values, style, color=colour)
        ends.append((values[int(np.argmax([row.share for row in rows]))], label, colour))
    ax.set(xscale="log", yscale="log", xlabel="share of the entries that is left", ylabel="mean squared error")
    ax.xaxis.set_minor_formatter(NullFormatter())
    enough = next((row.share / row.equations for row in rows), None)
    if enough:
        ax.axvline(enough, color=REFERENCE, linestyle=":")
        note(ax, "one entry a pixel", (enough, 1.0), (4, 6), REFERENCE, high=True)
    end_labels(ax, ends)
    return figure


def privacy_table(metrics: Metrics) -> pd.DataFrame:
    """z, its ε, and what is left of the fully connected network's images."""
    name, rows = SMALL[1], metrics.noise[SMALL[1]]
    table = {
        f"z = {row.z:g}": {
            "ε of one release": f"{spent.once:.3g}",
            "ε of training": f"{spent.training:.3g}",
            "error": f"{np.mean(row.mse):.2g}",
            "predicted": f"{np.mean(row.predicted):.2g}",
            "grey": f"{np.mean(metrics.grey[name]):.2g}",
        }
        for row, spent in zip(rows, metrics.privacy, strict=True)
    }
    return pd.DataFrame(table).T


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "noise": plot_noise,
    "images": plot_images,
    "compressed": plot_compressed,
}
