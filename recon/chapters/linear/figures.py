"""Figures of the linear chapter: counting, counterfactual training sets, the classifier's error, Anscombe's quartet."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.linear.metrics import Metrics
from recon.chapters.pictures import image_rows
from recon.store.results import Result

BLUE, ORANGE, GREY, DARK = "#0072b2", "#d55e00", "#9a9a9a", "#222222"


def plot_counterfactuals(result: Result[Metrics], start: str = "counterfactual") -> Figure:
    """Training images · start · result (black frame) · difference, amplified around grey.

    start: "counterfactual", "noise" or "repeated".  Above the results: how far they moved, in L2.
    """
    mean = result.array("mean")
    train, init, moved = (
        result.array(name) for name in ("example_train", f"example_init_{start}", f"example_x_{start}")
    )
    difference = moved - init
    factor = _round_factor(0.5 / float(difference.abs().quantile(0.995)))
    change = [f"moved {d:.2f}" for d in difference.norm(dim=1)]
    rows = [
        ("training\nimages", train + mean, "none"),
        ("start", init + mean, "none"),
        ("counterfactual", moved + mean, "black"),
        (f"difference\n× {factor}", 0.5 + factor * difference, "none"),
    ]
    return image_rows(rows, [[], [], change, []])


def plot_twins(result: Result[Metrics], n: int = 10) -> Figure:
    """Training images · other photographs · what they became (black frame) · difference, amplified around grey."""
    train, start, other = (result.array(f"twin_{name}").double() / 255 for name in ("train", "start", "other"))
    rows = torch.linspace(0, len(train) - 1, n).round().long()
    difference = (other - start)[rows]
    factor = _round_factor(0.5 / float(difference.abs().quantile(0.995)))
    change = [f"{255 * d:.1f} of 255" for d in difference.abs().mean(1)]
    return image_rows(
        [
            ("training\nimages", train[rows], "none"),
            ("other\nphotographs", start[rows], "none"),
            ("the twins,\n8 bits", other[rows], "black"),
            (f"difference\n× {factor}", 0.5 + factor * difference, "none"),
        ],
        [[], [], change, []],
    )


def plot_distance(result: Result[Metrics]) -> Figure:
    """Mean distance that other photographs move, against n and against weight decay; test accuracy against n."""
    by_n, decays = result.metrics.by_n, result.metrics.by_weight_decay
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.2), facecolor="white", layout="constrained")
    for ax, rows, at, label in (
        (axes[0], by_n, [row.n for row in by_n], "training images n"),
        (axes[1], decays, [row.weight_decay for row in decays], f"weight decay (n = {decays[0].n})"),
    ):
        ax.plot(at, [row.mean_change_l2 for row in rows], color=BLUE, marker="o", label="moved, mean")
        ax.plot(at, [row.max_change_l2 for row in rows], color=BLUE, marker="^", linestyle=":", label="moved, most")
        ax.plot(at, [row.nn_train_l2 for row in rows], color=GREY, marker="s", label="nearest training image")
        ax.set(xscale="log", yscale="log", xlabel=label, ylabel="L2 distance")
    axes[0].legend(fontsize=7, frameon=False)
    for ax in (axes[0], axes[2]):
        ax.set(xscale="log")
        ax.set_xticks([row.n for row in by_n], [str(row.n) for row in by_n], fontsize=8)
        ax.minorticks_off()
    axes[2].plot([row.n for row in by_n], [row.test_accuracy for row in by_n], color=ORANGE, marker="o")
    axes[2].plot(
        [row.n for row in by_n], [row.majority for row in by_n], color=GREY, linestyle="--", label="larger class"
    )
    axes[2].set(ylim=(0.4, 1), xlabel="training images n", ylabel="test accuracy")
    axes[2].legend(fontsize=7, frameon=False)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def plot_counting(result: Result[Metrics]) -> Figure:
    """Unknown pixel values against equations, logarithmic, for three networks."""
    rows = result.metrics.counting
    figure, ax = _axes((7.5, 3.2))
    bars = (
        ("unknowns N·K", BLUE, [row.unknowns for row in rows]),
        ("equations: one a parameter", ORANGE, [row.stationarity for row in rows]),
        ("equations: perfect fit, L·N", GREY, [row.perfect_fit for row in rows]),
    )
    for offset, (label, colour, heights) in enumerate(bars):
        at = np.arange(len(rows)) + 0.27 * (offset - 1)
        ax.barh(at, heights, 0.25, label=label, color=colour)
        for y, value in zip(at, heights, strict=True):
            ax.text(value * 1.15, y, f"{value:,}", va="center", fontsize=8, color=DARK)
    ax.set_yticks(range(len(rows)), [row.name.replace(", ", ",\n", 1).replace(" (", "\n(") for row in rows], fontsize=8)
    ax.set(xscale="log", xlim=(10, 1e9), xlabel="count (scalar equations or unknown pixel values)")
    ax.invert_yaxis()
    ax.legend(loc="upper center", bbox_to_anchor=(0.35, 1.18), ncols=3, fontsize=8, frameon=False)
    return figure


def plot_theta_error(result: Result[Metrics]) -> Figure:
    """Relative error of the retrained classifier: images unmoved, moved, moved and rounded to 8 bits; three starts."""
    figure, ax = _axes((7, 3.2))
    starts = (
        ("counterfactual", "photographs of\nthe other partition"),
        ("noise", "uniform noise"),
        ("repeated", "one photograph,\nrepeated"),
    )
    moved = result.metrics.starts()
    rows = [moved[name] for name, _ in starts]
    kinds = (
        ("unmoved (null)", GREY, [row.relative_theta_error_unmoved for row in rows]),
        ("moved, rounded to 8 bits", ORANGE, [row.relative_theta_error_8bit for row in rows]),
        ("moved", BLUE, [row.relative_theta_error for row in rows]),
    )
    for offset, (label, colour, errors) in enumerate(kinds):
        at = np.arange(len(starts)) + 0.27 * (offset - 1)
        ax.bar(at, errors, 0.25, label=label, color=colour)
        for x, value in zip(at, errors, strict=True):
            ax.text(x, value * 1.6, f"{value:.1g}", ha="center", fontsize=8, color=DARK)
    ax.axhline(2.2e-16, color=DARK, linewidth=0.8, linestyle=":", label="float64 rounding")
    ax.set_xticks(range(len(starts)), [label for _, label in starts])
    ax.set(yscale="log", ylim=(1e-17, 1e3), ylabel="‖θ̂ − θ*‖ / ‖θ*‖  (no unit)")
    ax.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=4)
    return figure


def plot_anscombe(result: Result[Metrics]) -> Figure:
    """Four data sets, one regression line; X̄ᵀr printed in each panel."""
    quartet = result.array("anscombe")
    figure, axes = plt.subplots(
        1, 4, figsize=(9, 2.7), sharex=True, sharey=True, facecolor="white", layout="constrained"
    )
    for number, (ax, (x, y)) in enumerate(zip(axes, quartet, strict=True)):
        slope, intercept, gradient, product = _line(x, y)
        ends = np.array([3.0, 20.0])
        ax.plot(ends, intercept + slope * ends, color=ORANGE, linewidth=1.5)
        ax.vlines(x, y, intercept + slope * x, color=GREY, linewidth=0.8)
        ax.scatter(x, y, s=16, color=BLUE, zorder=3)
        ax.set_title(f"set {number + 1}: y = {intercept:.2f} + {slope:.3f} x", fontsize=9)
        ax.text(3.3, -1.1, f"‖∇L‖ = {gradient:.1f}\nmax |X̄ᵀ∇L| = {product:.0e}", fontsize=8)
        ax.set(xlabel="x (no unit)", xlim=(3, 20), ylim=(-1.5, 14))
    axes[0].set_ylabel("y (no unit)")
    return figure


def _line(x: Tensor, y: Tensor) -> tuple[float, float, float, float]:
    """Slope, intercept, ‖∇L‖ and max |X̄ᵀ∇L| of the least-squares line."""
    x_bar = torch.stack([x, torch.ones_like(x)], dim=1)
    line = torch.linalg.solve(x_bar.mT @ x_bar, x_bar.mT @ y)
    gradient = x_bar @ line - y
    return float(line[0]), float(line[1]), float(gradient.norm()), float((x_bar.mT @ gradient).abs().max())


def _axes(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure, ax = plt.subplots(figsize=size, facecolor="white", layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _round_factor(factor: float) -> int:
    """1, 2, 5, 10, 20, 50, … nearest below."""
    steps = [m * 10**e for e in range(5) for m in (1, 2, 5)]
    return max([s for s in steps if s <= factor], default=1)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "counting": plot_counting,
    "counterfactuals": plot_counterfactuals,
    "counterfactuals_noise": lambda result: plot_counterfactuals(result, "noise"),
    "counterfactuals_repeated": lambda result: plot_counterfactuals(result, "repeated"),
    "theta_error": plot_theta_error,
    "twins": plot_twins,
    "distance": plot_distance,
    "anscombe": plot_anscombe,
}
