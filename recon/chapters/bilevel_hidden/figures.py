"""Figures of the one-hidden-layer chapter: distances of Table 1 beside their nulls, and cosines of hypergradients."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from recon.chapters.bilevel_hidden.metrics import HypergradientMetrics, Metrics, PathMetrics, SlopeMetrics
from recon.chapters.bilevel_pictures import COLOURS, LABELS
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, chart, end_labels, image_rows
from recon.scoring.matching import nearest
from recon.store.results import Result

MARKERS = {"uniform": ("o", "θ⁰ uniform"), "other_seed": ("^", "θ⁰: another seed"), "theta_star": ("s", "θ⁰ = θ*")}
WAYS = {
    "exact": "KKT, settled on its kinks",
    "kkt": "KKT, where L-BFGS ended",
    "gauss_newton": "Gauss–Newton",
    "quasi_newton": "quasi-Newton (paper)",
}
FLOOR = 1e-9


@chart
def plot_distances(result: Result[Metrics]) -> Figure:
    """Settled distance per inner start, start of x and weight decay (mean and spread over seeds), with its nulls."""
    decays = sorted(result.metrics.weight_decays.items())
    figure, axes = plt.subplots(1, len(decays), figsize=(PAGE, 3.4), sharey=True, squeeze=False, layout="constrained")
    for axis, (decay, found) in zip(axes[0], decays, strict=True):
        for k, (inner, by_start) in enumerate(found.inner_starts().items()):
            for j, (start, reached) in enumerate(by_start.starts().items()):
                axis.errorbar(
                    j + 0.2 * k - 0.2,
                    max(reached.settled_sum, FLOOR),
                    yerr=min(reached.settled_sum_sd, 0.9 * reached.settled_sum) or None,
                    marker=MARKERS[inner][0],
                    color=COLOURS[start],
                    markerfacecolor=COLOURS[start] if reached.converged == 1 else "white",
                    linestyle="none",
                    capsize=3,
                )
        axis.axhline(found.null.other_seed_sum, color=REFERENCE, linestyle="--")
        axis.axhline(found.null.zero_sum, color=REFERENCE, linestyle=":")
        axis.set(yscale="log", title=f"weight decay {decay}", xlim=(-0.5, 2.5))
        axis.set_xticks(range(len(LABELS)), [label.split(" ")[1] for label in LABELS.values()])
    axes[0, 0].set_ylabel(r"$\|\theta^*-\theta(x)\|^2$, sum over parameters")
    axes[0, len(decays) // 2].set_xlabel("start of the images")
    shapes = [
        plt.Line2D([], [], color="#333333", marker=marker, ls="", label=words) for marker, words in MARKERS.values()
    ]
    lines = [
        plt.Line2D([], [], color=REFERENCE, ls="--", label="null: another seed"),
        plt.Line2D([], [], color=REFERENCE, ls=":", label=r"$\|\theta^*\|^2$"),
    ]
    figure.legend(handles=shapes + lines, loc="outside upper center", ncols=5, columnspacing=1.2, handletextpad=0.4)
    return figure


@chart
def plot_cosines(result: Result[HypergradientMetrics]) -> Figure:
    """Every certified point: how each way to a hypergradient points along the true derivative."""
    figure, ax = plt.subplots(figsize=(PAGE, 2.6))
    for row, way in enumerate(reversed(WAYS)):
        values = [getattr(each, way) for each in result.metrics.relu]
        jitter = [row + 0.5 * (k / max(len(values) - 1, 1) - 0.5) for k in range(len(values))]
        ax.plot(values, jitter, "o", ms=4, alpha=0.7, color=SERIES[0])
    ax.set_yticks(range(len(WAYS)), list(reversed(WAYS.values())))
    ax.axvline(0, color=REFERENCE, linestyle=":")
    ax.set(xlabel="cosine with the derivative of the outer energy", xlim=(min(-0.05, ax.get_xlim()[0]), 1.05))
    return figure


@chart
def plot_slopes(result: Result[SlopeMetrics]) -> Figure:
    """Every point over its network's width: how well either hypergradient predicts the slopes in random directions."""
    figure, ax = plt.subplots(figsize=(PAGE, 2.8), layout="constrained")
    widths = sorted({each.width for each in result.metrics.points})
    for row, (way, colour) in enumerate({"gauss_newton": SERIES[0], "quasi_newton": SERIES[1]}.items()):
        for column, width in enumerate(widths):
            values = [getattr(each.quotients[0], way) for each in result.metrics.points if each.width == width]
            spread = [column + 0.3 * row - 0.15 + 0.02 * (k - (len(values) - 1) / 2) for k in range(len(values))]
            ax.plot(spread, values, "os"[row], color=colour, ms=5, alpha=0.8, label=WAYS[way] if column == 0 else None)
    ax.axhline(0, color=REFERENCE, linestyle=":")
    ax.set_xticks(range(len(widths)), [str(width) for width in widths])
    ax.set(xlabel="hidden width", ylabel="cosine with measured slopes", ylim=(-1.05, 1.05))
    ax.legend(loc="lower left", ncols=2)
    return figure


@chart
def plot_paths(result: Result[PathMetrics]) -> Figure:
    """The distance after every short step, over how much the images still look like their starts; nulls as lines."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    ends: list[tuple[float, str, Colour]] = []
    for inner, by_start in result.metrics.paths.items():
        for start in by_start:
            energy, likeness = result.array(f"trace_{start}_from_{inner}").unbind(1)
            ax.plot(likeness, energy, MARKERS[inner][0] + "-", color=COLOURS[start], ms=4, markevery=[0, -1])
            ends.append((float(energy[-1]), f"{LABELS[start]},\n{MARKERS[inner][1]}", COLOURS[start]))
    metrics = result.metrics
    ax.axhline(metrics.other_seed_sum, color=REFERENCE, linestyle="--")
    ax.axhline(metrics.zero_sum, color=REFERENCE, linestyle=":")
    ax.axvline(0.9, color="0.8", lw=1)
    ax.set(xlabel="NCC of the images with their start, mean", ylabel=r"$\|\theta^*-\theta(x)\|^2$", ylim=(0, None))
    ax.invert_xaxis()
    nulls = [
        (metrics.other_seed_sum, "null: another seed", REFERENCE),
        (metrics.zero_sum, r"$\|\theta^*\|^2$", REFERENCE),
    ]
    end_labels(ax, [*ends, *nulls])
    return figure


def plot_path_images(result: Result[PathMetrics], n: int = 8) -> Figure:
    """θ⁰ uniform: start, the last images that still look like it, and those at the end with the nearest training image
    and its L2 distance, from both starts; last, the null: held-out images and the training images nearest to them."""
    rows: list[tuple[str, torch.Tensor, str]] = []
    titles: list[list[str]] = []
    train = result.array("x_train")
    for start, of in (("truth", "x_train"), ("partition", "x_partition")):
        columns = torch.linspace(0, len(result.array(of)) - 1, n).round().long()
        path = result.metrics.paths["uniform"][start]
        for label, name, frame in (
            (f"{LABELS[start]} start", of, "none"),
            (
                f"step {path.alike.step}:\ndistance {path.alike.distance_sum:.3g}",
                f"alike_{start}_from_uniform",
                "black",
            ),
            (f"step {path.end.step}:\ndistance {path.end.distance_sum:.3g}", f"x_hat_{start}_from_uniform", "black"),
        ):
            rows.append((label, result.array(name)[columns], frame))
        _add_nearest(rows, titles, train)
    held_out = result.array("x_held_out")
    rows.append(("null: held-out\nimage", held_out[torch.linspace(0, len(held_out) - 1, n).round().long()], "none"))
    _add_nearest(rows, titles, train)
    return image_rows(rows, titles)


def _add_nearest(rows: list[tuple[str, torch.Tensor, str]], titles: list[list[str]], train: torch.Tensor) -> None:
    found = nearest(rows[-1][1], train, "l2")
    rows.append(("nearest\ntraining image", train[found.index], "grey"))
    titles += [[] for _ in range(len(rows) - 1 - len(titles))] + [[f"{d:.1f}" for d in found.score]]
