"""Figures of the one-hidden-layer chapter: distances of Table 1 beside their nulls, and cosines of hypergradients."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from recon.chapters.bilevel_hidden.metrics import HypergradientMetrics, Metrics, PathMetrics
from recon.chapters.bilevel_pictures import COLOURS, LABELS
from recon.chapters.pictures import image_rows, on_white
from recon.store.results import Result

MARKERS = {"uniform": ("o", "θ⁰ uniform"), "other_seed": ("^", "θ⁰: another seed"), "theta_star": ("s", "θ⁰ = θ*")}
WAYS = {
    "exact": "KKT, settled on its kinks",
    "kkt": "KKT, where L-BFGS ended",
    "gauss_newton": "Gauss–Newton",
    "quasi_newton": "quasi-Newton (paper)",
}
FLOOR = 1e-9


def plot_distances(result: Result[Metrics]) -> Figure:
    """Settled distance per inner start, start of x and weight decay (mean and spread over seeds), with its nulls."""
    decays = sorted(result.metrics.weight_decays.items())
    figure, axes = plt.subplots(1, len(decays), figsize=(4.4 * len(decays), 3.8), sharey=True, squeeze=False)
    figure.patch.set_facecolor("white")
    for axis, (decay, found) in zip(axes[0], decays, strict=True):
        for k, (inner, by_start) in enumerate(found.inner_starts().items()):
            marker, label = MARKERS[inner]
            for j, (start, reached) in enumerate(by_start.starts().items()):
                axis.errorbar(
                    j + 0.2 * k - 0.2,
                    max(reached.settled_sum, FLOOR),
                    yerr=min(reached.settled_sum_sd, 0.9 * reached.settled_sum) or None,
                    marker=marker,
                    color=COLOURS[start],
                    markerfacecolor=COLOURS[start] if reached.converged == 1 else "white",
                    linestyle="none",
                    label=label if j == 0 else None,
                    capsize=3,
                )
        axis.axhline(found.null.other_seed_sum, color="0.3", linestyle="--", label="null: other seed")
        axis.axhline(found.null.zero_sum, color="0.6", linestyle=":", label=r"$\|\theta^*\|^2$")
        axis.set(yscale="log", title=f"weight decay {decay}", xlim=(-0.5, 2.5))
        axis.set_xticks(range(len(LABELS)), list(LABELS.values()), fontsize=8)
    axes[0, 0].set_ylabel(r"$\|\theta^*-\theta(x)\|^2$, sum over parameters")
    axes[0, -1].legend(fontsize=7)
    figure.tight_layout()
    return figure


def plot_cosines(result: Result[HypergradientMetrics]) -> Figure:
    """Every certified point: how each way to a hypergradient points along the true derivative."""
    figure, ax = plt.subplots(figsize=(6.4, 3.0))
    for row, way in enumerate(reversed(WAYS)):
        values = [getattr(each, way) for each in result.metrics.relu]
        jitter = [row + 0.5 * (k / max(len(values) - 1, 1) - 0.5) for k in range(len(values))]
        ax.plot(values, jitter, "o", ms=4, alpha=0.7)
    ax.set_yticks(range(len(WAYS)), list(reversed(WAYS.values())))
    ax.axvline(0, color="0.6", linestyle=":")
    ax.set(xlabel="cosine with the derivative of the outer energy", xlim=(min(-0.05, ax.get_xlim()[0]), 1.05))
    figure.tight_layout()
    return on_white(figure)


def plot_paths(result: Result[PathMetrics]) -> Figure:
    """The distance after every short step, over how much the images still look like their starts; nulls as lines."""
    figure, ax = plt.subplots(figsize=(6.4, 3.6))
    for inner, by_start in result.metrics.paths.items():
        for start in by_start:
            energy, likeness = result.array(f"trace_{start}_from_{inner}").unbind(1)
            label = f"{LABELS[start]}, {MARKERS[inner][1]}"
            ax.plot(
                likeness, energy, MARKERS[inner][0] + "-", color=COLOURS[start], ms=4, markevery=[0, -1], label=label
            )
    ax.axhline(result.metrics.other_seed_sum, color="0.3", linestyle="--", label="null: other seed")
    ax.axhline(result.metrics.zero_sum, color="0.6", linestyle=":", label=r"$\|\theta^*\|^2$")
    ax.axvline(0.9, color="0.8")
    ax.set(xlabel="NCC of the images with their start, mean", ylabel=r"$\|\theta^*-\theta(x)\|^2$", ylim=(0, None))
    ax.invert_xaxis()
    ax.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    return on_white(figure)


def plot_path_images(result: Result[PathMetrics], n: int = 8) -> Figure:
    """θ⁰ uniform: start, the last images that still look like it, and those at the end, from both starts."""
    rows = []
    for start, of in (("truth", "x_train"), ("partition", "x_partition")):
        columns = torch.linspace(0, len(result.array(of)) - 1, n).round().long()
        path = result.metrics.paths["uniform"][start]
        for label, name, frame in (
            (LABELS[start], of, "none"),
            (f"step {path.alike.step}:\n{path.alike.distance_sum:.3g}", f"alike_{start}_from_uniform", "black"),
            (f"step {path.end.step}:\n{path.end.distance_sum:.3g}", f"x_hat_{start}_from_uniform", "black"),
        ):
            rows.append((label, result.array(name)[columns], frame))
    return image_rows(rows)
