"""Figures of the linear chapter: counting, counterfactual training sets, the classifier's error, Anscombe's quartet."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.linear.metrics import Metrics
from recon.chapters.pictures import (
    FREE,
    HELD_OUT,
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    chart,
    end_labels,
    image_rows,
    note,
)
from recon.store.results import Result


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
    change = [f"{d:.2f}" for d in difference.norm(dim=1)]
    rows = [
        ("training\nimages", train + mean, "none"),
        ("start", init + mean, "none"),
        ("result, moved\nby (L2)", moved + mean, "black"),
        (f"difference\n× {factor}", 0.5 + factor * difference, "none"),
    ]
    return image_rows(rows, [[], [], change, []])


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
def plot_distance(result: Result[Metrics]) -> Figure:
    """Mean distance that other photographs move, against n and against weight decay; test accuracy against n."""
    by_n, decays = result.metrics.by_n, result.metrics.by_weight_decay
    figure, axes = plt.subplots(3, 1, figsize=(PAGE, 6.4))
    for ax, rows, at, label in (
        (axes[0], by_n, [row.n for row in by_n], "training images n"),
        (axes[1], decays, [row.weight_decay for row in decays], f"weight decay (n = {decays[0].n})"),
    ):
        curves = (
            ([row.nn_train_l2 for row in rows], "to the nearest training\nimage (unmoved)", HELD_OUT, "s-"),
            ([row.max_change_l2 for row in rows], "moved, the farthest", SERIES[0], "^:"),
            ([row.mean_change_l2 for row in rows], "moved, on average", SERIES[0], "o-"),
        )
        for values, _, colour, style in curves:
            ax.plot(at, values, style, color=colour, markersize=5)
        ax.set(xscale="log", yscale="log", xlabel=label, ylabel="L2 distance")
        end_labels(ax, [(values[-1], words, colour) for values, words, colour, _ in curves])
    sizes = [row.n for row in by_n]
    axes[2].plot(sizes, [row.test_accuracy for row in by_n], "o-", color=SERIES[0], markersize=5)
    axes[2].plot(sizes, [row.majority for row in by_n], "--", color=REFERENCE)
    axes[2].set(xscale="log", ylim=(0.4, 1), xlabel="training images n", ylabel="accuracy on other images")
    ends = (by_n[-1].test_accuracy, "the classifier", SERIES[0]), (by_n[-1].majority, "the larger class", REFERENCE)
    end_labels(axes[2], ends)
    for ax in (axes[0], axes[2]):
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
    return figure


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


@chart
def plot_theta_error(result: Result[Metrics]) -> Figure:
    """Relative error of the retrained classifier: images unmoved, moved, moved and rounded to 8 bits; three starts."""
    figure, ax = plt.subplots(figsize=(PAGE, 2.6))
    starts = (
        ("counterfactual", "photographs of\nthe other partition"),
        ("noise", "uniform noise"),
        ("repeated", "one photograph,\nrepeated"),
    )
    moved = result.metrics.starts()
    for y, (name, _) in enumerate(starts):
        row = moved[name]
        kinds = (
            (row.relative_theta_error_unmoved, "unmoved (null)", FREE, 0.0),
            (row.relative_theta_error_8bit, "moved, 8 bits", HELD_OUT, 0.0),
            (row.relative_theta_error, "moved", TRAIN, 0.0),
        )
        values = [value for value, _, _, _ in kinds]
        ax.plot([min(values), max(values)], [y, y], color="#cccccc", lw=2, zorder=1)
        for k, (value, label, colour, _) in enumerate(kinds):
            ax.plot(value, y, "o", color=colour, markersize=8)
            up = (0, 7) if k != 1 else (0, -15)
            words = f"{label}: {value:.1g}" if y == 0 else f"{value:.1g}"
            note(ax, words, (value, y), up, colour, "left" if k == 0 and y == 0 else "center", "bottom")
    ax.axvline(2.2e-16, color=REFERENCE, linewidth=0.8, linestyle=":")
    note(ax, "float64 rounding", (2.2e-16, 2.45), (4, 0), REFERENCE)
    ax.set_yticks(range(len(starts)), [label for _, label in starts])
    ax.set(xscale="log", xlim=(1e-17, 1e2), ylim=(2.6, -0.5), xlabel="‖θ̂ − θ*‖ / ‖θ*‖  (no unit)")
    return figure


@chart
def plot_anscombe(result: Result[Metrics]) -> Figure:
    """Four data sets, one regression line; X̄ᵀr printed in each panel."""
    quartet = result.array("anscombe")
    figure, axes = plt.subplots(2, 2, figsize=(PAGE, 4.2), sharex=True, sharey=True)
    for number, (ax, (x, y)) in enumerate(zip(axes.flat, quartet, strict=True)):
        slope, intercept, gradient, product = _line(x, y)
        ends = np.array([3.0, 20.0])
        ax.plot(ends, intercept + slope * ends, color=SERIES[1], linewidth=1.5)
        ax.vlines(x, y, intercept + slope * x, color=REFERENCE, linewidth=0.8)
        ax.scatter(x, y, s=16, color=SERIES[0], zorder=3)
        ax.set_title(f"set {number + 1}: y = {intercept:.2f} + {slope:.3f} x")
        ax.text(8.5, -0.4, f"‖∇L‖ = {gradient:.1f}\nmax |X̄ᵀ∇L| = {product:.0e}")
        ax.set(xlim=(3, 20), ylim=(-1.5, 14))
    for ax in axes[1]:
        ax.set_xlabel("x (no unit)")
    for ax in axes[:, 0]:
        ax.set_ylabel("y (no unit)")
    return figure


def _line(x: Tensor, y: Tensor) -> tuple[float, float, float, float]:
    """Slope, intercept, ‖∇L‖ and max |X̄ᵀ∇L| of the least-squares line."""
    x_bar = torch.stack([x, torch.ones_like(x)], dim=1)
    line = torch.linalg.solve(x_bar.mT @ x_bar, x_bar.mT @ y)
    gradient = x_bar @ line - y
    return float(line[0]), float(line[1]), float(gradient.norm()), float((x_bar.mT @ gradient).abs().max())


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
