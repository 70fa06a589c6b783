"""Figures of chapter 17: error against noise with its prediction, images, compression."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from recon.chapters.leakage_defences.metrics import Metrics, PriorMetrics
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


@chart
def plot_prior(result: Result[PriorMetrics]) -> Figure:
    """Error over a grey image's against z: with the prior of public photographs, every image a dot, and without."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.8))
    for name, colour in zip(metrics.noise, SERIES, strict=False):
        rows, grey = metrics.noise[name], np.array(metrics.grey[name])
        z = [row.z for row in rows]
        ax.plot(z, [np.mean(row.mse) / grey.mean() for row in rows], color=colour, label=f"{name},\nwith the prior")
        ax.plot(z, [np.mean(row.blind) / grey.mean() for row in rows], "--", color=colour, label="without it")
        for row in rows:
            ax.plot([row.z] * len(grey), np.array(row.mse) / grey, ".", color=colour, alpha=0.4)
    first = next(iter(metrics.noise))
    ax.axhline(float(np.mean(metrics.mean[first]) / np.mean(metrics.grey[first])), color=REFERENCE, linestyle=":")
    private = [row.z for row in metrics.privacy if row.training <= 8]
    if private:
        ax.axvspan(min(private), max(row.z for row in metrics.privacy) * 1.3, color=FREE, alpha=0.12, linewidth=0)
    ax.plot([], [], ":", color=REFERENCE, label="mean public image")
    ax.set(xscale="log", ylim=(0, None), xlabel="noise multiplier z", ylabel="error over a grey image's")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def plot_photographs(result: Result[PriorMetrics]) -> Figure:
    """The images of the fully connected network: at some noise without the prior and with it, and the mean image."""
    name = SMALL[1]
    some = [row.z for row in result.metrics.noise[name] if 0.03 <= row.z <= 1 and row.z != 0.6]
    truth = result.array(f"truth {name}")[:6]
    rows = [
        (f"{words}, z = {z:g}", result.array(f"{key} {name} {z:g}")[:6].clamp(0, 1))
        for z in some
        for key, words in (("blind", "without"), ("x_hat", "with prior"))
    ]
    mean_image = result.array(f"mean {name}").expand(len(truth), -1)
    return beside_grey(truth, [*rows, ("mean public\nimage (null)", mean_image)])


def prior_table(metrics: PriorMetrics) -> pd.DataFrame:
    """z, its ε, and what either adversary has of every network's images."""
    spent = {row.z: row for row in metrics.privacy}
    table = {
        f"{name}, z = {row.z:g}": {
            "ε of one release": f"{spent[row.z].once:.3g}",
            "ε of training": f"{spent[row.z].training:.3g}",
            "MSE": f"{np.mean(row.mse):.2g}",
            "predicted": f"{np.mean(row.predicted):.2g}",
            "without prior": f"{np.mean(row.blind):.2g}",
            "mean image": f"{np.mean(metrics.mean[name]):.2g}",
            "grey": f"{np.mean(metrics.grey[name]):.2g}",
            "NCC": f"{np.mean(row.ncc):.2f}",
            "without": f"{np.mean(row.blind_ncc):.2f}",
            "own": f"{row.own} of {len(row.ncc)}",
        }
        for name, rows in metrics.noise.items()
        for row in rows
    }
    return pd.DataFrame(table).T


PRIOR_FIGURES: dict[str, Callable[[Result[PriorMetrics]], Figure]] = {
    "prior": plot_prior,
    "photographs": plot_photographs,
}
