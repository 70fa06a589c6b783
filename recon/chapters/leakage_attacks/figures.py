"""Figures of chapter 15: image × network × method, our scores against the published ones; and of twenty images."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.leakage_attacks.claims_matching import SUFFIXES, name_of
from recon.chapters.leakage_attacks.metrics import MatchingMetrics, Metrics, Scores
from recon.chapters.pictures import image_rows, on_white, show_image
from recon.chapters.published import DIVERGED, LABELS, METHODS, PUBLISHED
from recon.store.results import Result


def plot_grid(result: Result[Metrics]) -> Figure:
    """Reconstructions by every method that ran; above each MSE and PSNR (peak 255, as published)."""
    truth, networks = result.array("truth"), result.metrics.networks
    count = len(truth)
    methods = ran_on_any(result.metrics)
    columns = count * (len(methods) + 1)
    figure, axes = plt.subplots(
        len(networks), columns, figsize=(1.15 * columns + 1, 1.5 * len(networks)), squeeze=False
    )
    for row, (name, attacks) in enumerate(networks.items()):
        for k in range(count):
            show_image(axes[row, k], truth[k], "grey", "original" if row == 0 else "")
            for column, method in enumerate(methods, start=1):
                ax = axes[row, count * column + k]
                header = f"{LABELS[method]}\n" if row == 0 and k == 0 else ""
                if method in attacks.methods:
                    image = result.array(f"x_hat {name} {method}")[k]
                    show_scored(ax, image, header, attacks.methods[method], k)
                else:
                    ax.axis("off")
                    ax.set_title(header, fontsize=8)
        axes[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    figure.tight_layout(pad=0.4)
    return on_white(figure)


def show_scored(ax: Axes, image: Tensor, header: str, scores: Scores, k: int) -> None:
    """The k-th image by one method, its scores above."""
    each = list(scores.per_image.values())[k]
    title = f"{each.mse:.4f}\n{each.psnr_255:.1f} dB" if each and each.mse < DIVERGED else "diverged"
    show_image(ax, image, "black", header + title)
    ax.title.set_fontsize(8)


def table(metrics: Metrics) -> dict[str, dict[str, str]]:
    """Appendix E in words, network by network and method by method: ours, and the published in brackets."""
    return {
        name: {LABELS[method]: in_words(name, method, row.methods.get(method)) for method in ran_on_any(metrics)}
        for name, row in metrics.networks.items()
    }


def ran_on_any(metrics: Metrics) -> list[str]:
    """Methods that ran on any network, in the order of the tables."""
    return [method for method in LABELS if any(method in row.methods for row in metrics.networks.values())]


def in_words(name: str, method: str, ours: Scores | None) -> str:
    """One entry of the table; empty where the method did not run."""
    if ours is None:
        return ""
    text = "diverged" if ours.diverged else f"{ours.mse:.4f}, {ours.psnr_255:.2f} dB"
    published = PUBLISHED[name].get(method)
    return text + (f"  (paper {published[0]:.4g}, {published[1]:.2f})" if published else "")


def plot_scores(result: Result[Metrics]) -> Figure:
    """Our mean PSNR against the published one, every network and method."""
    figure, ax = plt.subplots(figsize=(5.2, 4.4))
    networks = result.metrics.networks
    for method, colour in zip(METHODS, sns.color_palette("colorblind", len(METHODS)), strict=True):
        points = [
            (PUBLISHED[name][method][1], row.methods[method].psnr_255)
            for name, row in networks.items()
            if method in row.methods and 0 < PUBLISHED[name][method][1] < 100
        ]
        if points:
            ax.scatter(*zip(*points, strict=True), color=colour, label=LABELS[method])
    low, high = 44, 82
    ax.plot([low, high], [low, high], color="0.6", linestyle=":")
    ax.set(xlabel="published PSNR in dB (peak 255)", ylabel="ours", xlim=(low, high), ylim=(low, high))
    ax.legend(fontsize=8)
    figure.tight_layout(pad=0.4)
    return on_white(figure)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "grid": plot_grid,
    "scores": plot_scores,
}


# ------------------------------------------------------------------------------------------- twenty images


def plot_choices(result: Result[MatchingMetrics]) -> Figure:
    """Error of CosineTV and of Hybrid with either energy and either steps, network by network; every image a dot."""
    networks = result.metrics.networks
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), sharey=True)
    place = np.arange(len(networks))
    grey = float(np.mean(result.metrics.grey))
    for ax, attack in zip(axes, ("cosine_tv", "hybrid"), strict=True):
        colours = sns.color_palette("colorblind", len(SUFFIXES))
        for k, ((suffix, words), colour) in enumerate(zip(SUFFIXES.items(), colours, strict=True)):
            x = place + 0.18 * (k - 1.5)
            for at, row in zip(x, networks.values(), strict=True):
                logs = row.methods[attack + suffix].logs
                ax.plot(np.full(len(logs), at), 10**logs, ".", color=colour, alpha=0.35, markersize=4)
            typical = [row.methods[attack + suffix].typical for row in networks.values()]
            ax.plot(x, typical, "_", color=colour, markersize=13, markeredgewidth=2.5, label=words)
        ax.axhline(grey, color="0.5", linestyle=":", label="a grey image")
        ax.set_xticks(place, list(networks), fontsize=9, rotation=30)
        ax.set(yscale="log", title=LABELS[attack])
    axes[0].set_ylabel("mean squared error")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    return on_white(figure)


def plot_tv(result: Result[MatchingMetrics]) -> Figure:
    """Error of CosineTV, as its authors run it, against the weight of the total variation; 0 at the left edge."""
    figure, ax = plt.subplots(figsize=(5.4, 3.6))
    swept = {name: row.tv for name, row in result.metrics.networks.items() if row.tv}
    for (name, runs), colour in zip(swept.items(), sns.color_palette("colorblind"), strict=False):
        weights = np.array([float(weight) for weight in runs])
        least = weights[weights > 0].min() / 10
        x = np.maximum(weights, least)
        typical = np.array([run.typical for run in runs.values()])
        spread = np.array([np.quantile(run.logs, (0.25, 0.75)) for run in runs.values()])
        ax.plot(x, typical, "o-", color=colour, label=name)
        ax.fill_between(x, 10 ** spread[:, 0], 10 ** spread[:, 1], color=colour, alpha=0.15)
    ax.axvline(0.01, color="0.6", linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="weight of the total variation", ylabel="mean squared error")
    ax.legend(fontsize=9)
    figure.tight_layout()
    return on_white(figure)


def plot_classes(result: Result[MatchingMetrics]) -> Figure:
    """Appendix H: one image of each class by every attack, on the network on which attacks differ most."""
    metrics = result.metrics
    spread = {
        name: float(np.ptp([run.logs.mean() for run in row.methods.values()])) for name, row in metrics.networks.items()
    }
    name = max((each for each in spread if metrics.networks[each].joint < 0), key=spread.__getitem__, default=None)
    name = name or next(iter(metrics.networks))
    first = 2 if len(metrics.index) >= 12 else 0  # after the paper's two come the classes in turn
    shown = slice(first, first + 10)
    kinds = [kind for kind in SHOWN if kind in metrics.networks[name].methods]
    rows = [("original", result.array("truth")[shown], "grey")]
    rows += [(SHOWN[kind], result.array(f"x_hat {name} {kind}")[shown], "black") for kind in kinds]
    figure = image_rows(rows, size=0.95)
    figure.suptitle(name, y=1.02)
    return on_white(figure)


def matching_table(metrics: MatchingMetrics) -> pd.DataFrame:
    """Geometric mean of the errors over images, network by network."""
    rows = {
        name: {name_of(method): f"{run.typical:.1e}" for method, run in row.methods.items()}
        for name, row in metrics.networks.items()
    }
    return pd.DataFrame(rows)


SHOWN = {
    "rgap": "R-GAP",
    "dlg": "DLG",
    "cosine_tv": "CosineTV,\nthe paper's",
    "cosine_tv_both": "CosineTV,\nits authors'",
    "hybrid": "Hybrid",
    "hybrid_both": "Hybrid,\nGeiping's steps",
    "gauss_newton": "Gauss–Newton",
    "smoothest": "the smoothest\nsolution",
}
MATCHING_FIGURES: dict[str, Callable[[Result[MatchingMetrics]], Figure]] = {
    "choices": plot_choices,
    "tv": plot_tv,
    "classes": plot_classes,
}
