"""Figures of chapter 15: image × network × method, our scores against the published ones, one image per class."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.leakage_attacks.metrics import Metrics, Scores
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


def plot_gallery(result: Result[Metrics]) -> Figure:
    """Appendix H: one image per class, by R-GAP."""
    rows = [("original", result.array("gallery truth"), "grey")]
    for key in sorted(result.arrays):
        if key.startswith("gallery CNN"):
            rows.append((key.removeprefix("gallery "), result.array(key), "black"))
    return image_rows(rows)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "grid": plot_grid,
    "scores": plot_scores,
    "gallery": plot_gallery,
}
