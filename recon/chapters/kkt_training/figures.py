"""Loss, margin and KKT residual against steps; who supports the margin."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from recon.chapters.kkt_training.metrics import Metrics
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, chart, end_labels, image_rows, note
from recon.scoring.matching import rescale
from recon.store.results import Result


@chart
def plot_training(result: Result[Metrics]) -> Figure:
    """−log E, smallest normalised margin and residual of layer 1 against steps, both methods."""
    figure, axes = plt.subplots(3, 1, figsize=(PAGE, 6.6), sharex=True)
    metrics = result.metrics
    ends: list[list[tuple[float, str, Colour]]] = [[], [], []]
    for method, label, run, colour in (
        ("loss-scaled", "loss-scaled (ours)", metrics.loss_scaled, SERIES[0]),
        ("gradient-descent", "gradient descent\n(reference)", metrics.gradient_descent, SERIES[1]),
    ):
        history = -result.array(f"history_{method}")
        steps = [row.step for row in run.observed]
        margins = [row.min_normalised_margin for row in run.observed]
        hard, smoothed = ([getattr(row, f"kkt_residual{kind}") for row in run.observed] for kind in ("", "_smoothed"))
        axes[0].plot(range(1, len(history) + 1), history, color=colour)
        axes[1].plot(steps, margins, "o-", color=colour, markersize=3)
        axes[2].plot(steps, hard, "o-", color=colour, markersize=3)
        axes[2].plot(steps, smoothed, "s:", color=colour, markersize=3)
        short = label.split(" (")[0].split("\n")[0]
        ends[0].append((float(history[-1]), label, colour))
        ends[1].append((margins[-1], label, colour))
        ends[2] += [(hard[-1], f"{short}, hard ReLU′", colour), (smoothed[-1], f"{short}, smoothed", colour)]
    axes[0].axhline(12.43, color=REFERENCE, linestyle=":")
    ends[0].append((12.43, "reference\nafter 10⁶ epochs", REFERENCE))
    axes[0].set(xscale="log", yscale="symlog", ylabel="−log E (training loss)")
    axes[0].set_ylim(bottom=min(0.0, axes[0].dataLim.ymin))
    axes[1].set(ylabel="smallest normalised margin")
    axes[2].set(xlabel="step", ylabel="KKT residual, layer 1", ylim=(0, 1.05))
    for ax, curves in zip(axes, ends, strict=True):
        end_labels(ax, curves)
    return figure


@chart
def plot_residual(result: Result[Metrics]) -> Figure:
    """Loss-scaled descent alone: the residual of layer 1, hard and smoothed, and ‖θ_l‖² of the layers, by steps."""
    metrics = result.metrics
    figure, (above, below) = plt.subplots(2, 1, figsize=(PAGE, 5.2), sharex=True)
    rows = metrics.loss_scaled.observed
    steps = [row.step for row in rows]
    hard = [100 * row.kkt_residual for row in rows]
    smoothed = [100 * row.kkt_residual_smoothed for row in rows]
    above.plot(steps, hard, "o-", color=SERIES[0], markersize=5)
    above.plot(steps, smoothed, "s:", color=SERIES[0], markersize=5)
    above.set(xscale="log", yscale="log", ylabel="left of ‖θ₁‖, in %")
    if (reached := metrics.at_reference_loss) is not None:
        above.axvline(reached.step, color=REFERENCE, linestyle=":")
        note(above, "the reference's\nfinal loss", (reached.step, 0.1), (-5, 0), REFERENCE, "right", high=True)
    ends: list[tuple[float, str, Colour]] = []
    for layer, colour in enumerate(SERIES[1:4]):
        norms = [row.layer_norms[layer] for row in rows]
        below.plot(steps, norms, "o-", color=colour, markersize=5)
        ends.append((norms[-1], f"layer {layer + 1}", colour))
    start = metrics.second_layer.start_norm
    below.axhline(start, color=REFERENCE, linestyle=":")
    below.set(yscale="log", xlabel="step", ylabel=r"$\|\theta_l\|^2$")
    end_labels(
        above, [(hard[-1], "hard ReLU′", SERIES[0]), (smoothed[-1], f"smoothed, α = {metrics.alpha:g}", SERIES[0])]
    )
    end_labels(below, [*ends, (start, "‖W2‖² at the start", REFERENCE)])
    return figure


def plot_support(result: Result[Metrics], n: int = 8) -> Figure:
    """The training images with the largest and with the smallest multipliers."""
    order = result.array("multipliers").argsort(descending=True)
    x = rescale(result.array("x_train") + result.array("mean"))
    value = result.array("multipliers")
    rows = [("largest λ", x[order[:n]], "grey"), ("smallest λ", x[order[-n:]], "grey")]
    return image_rows(rows, [[f"{v:.1e}" if v else "0" for v in value[part]] for part in (order[:n], order[-n:])])


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "training": plot_training,
    "residual": plot_residual,
    "support": plot_support,
}
