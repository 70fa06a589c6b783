"""Loss, margin and KKT residual against steps; who supports the margin."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from recon.chapters.kkt_training.metrics import Metrics
from recon.chapters.pictures import image_rows
from recon.scoring.matching import rescale
from recon.store.results import Result


def plot_training(result: Result[Metrics]) -> Figure:
    """log E, smallest normalised margin and residual of layer 1 against steps, both methods."""
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.3))
    metrics = result.metrics
    ours, reference = sns.color_palette("colorblind", 2)
    for method, label, run, colour in (
        ("loss-scaled", "loss-scaled (ours)", metrics.loss_scaled, ours),
        ("gradient-descent", "gradient descent (reference)", metrics.gradient_descent, reference),
    ):
        history = -result.array(f"history_{method}")
        steps = [row.step for row in run.observed]
        axes[0].plot(range(1, len(history) + 1), history, color=colour, label=label)
        for ax, values in (
            (axes[1], [row.min_normalised_margin for row in run.observed]),
            (axes[2], [row.kkt_residual for row in run.observed]),
        ):
            ax.plot(steps, values, color=colour, marker="o", markersize=3, label="hard ReLU′")
        smoothed = [row.kkt_residual_smoothed for row in run.observed]
        axes[2].plot(steps, smoothed, color=colour, marker="s", markersize=3, linestyle=":", label="smoothed")
    axes[0].axhline(12.43, color="0.4", linestyle=":", label="reference after 10⁶ epochs")
    axes[0].set(xscale="log", yscale="symlog", xlabel="step", ylabel="−log E (training loss)")
    axes[0].legend(fontsize=7)
    axes[1].set(xscale="log", xlabel="step", ylabel="smallest normalised margin")
    axes[2].set(xscale="log", xlabel="step", ylabel="KKT residual, layer 1", ylim=(0, 1.05))
    axes[2].legend(fontsize=6, title="ours: first, reference: last two", title_fontsize=6)
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure


def plot_residual(result: Result[Metrics]) -> Figure:
    """Loss-scaled descent alone: the residual of layer 1, hard and smoothed, and ‖θ_l‖² of the layers, by steps."""
    metrics, figure = result.metrics, plt.figure(figsize=(9, 3.3))
    left, right = figure.subplots(1, 2)
    rows = metrics.loss_scaled.observed
    steps = [row.step for row in rows]
    colours = sns.color_palette("colorblind", 3)
    left.plot(steps, [100 * row.kkt_residual for row in rows], color=colours[0], marker="o", label="hard ReLU′")
    smoothed = [100 * row.kkt_residual_smoothed for row in rows]
    left.plot(steps, smoothed, color=colours[1], marker="s", label=f"smoothed, α = {metrics.alpha:g}")
    if (reached := metrics.at_reference_loss) is not None:
        left.axvline(reached.step, color="0.4", linestyle=":", label="reference's final loss")
    left.set(xscale="log", yscale="log", xlabel="step", ylabel="left of ‖θ₁‖, in %")
    for layer, colour in enumerate(colours):
        right.plot(
            steps, [row.layer_norms[layer] for row in rows], color=colour, marker="o", label=f"layer {layer + 1}"
        )
    right.axhline(metrics.second_layer.start_norm, color="0.4", linestyle=":", label="‖W2‖² at the start")
    right.set(xscale="log", yscale="log", xlabel="step", ylabel="‖θ_l‖²")
    for ax in (left, right):
        ax.legend(fontsize=7)
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure


def plot_support(result: Result[Metrics], n: int = 8) -> Figure:
    """The training images with the largest and with the smallest multipliers."""
    order = result.array("multipliers").argsort(descending=True)
    x = rescale(result.array("x_train") + result.array("mean"))
    value = result.array("multipliers")
    rows = [("largest λ", x[order[:n]], "grey"), ("smallest λ", x[order[-n:]], "grey")]
    return image_rows(rows, [[f"{v:.1e}" for v in value[part]] for part in (order[:n], order[-n:])])


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "training": plot_training,
    "residual": plot_residual,
    "support": plot_support,
}
