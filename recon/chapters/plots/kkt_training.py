"""Loss, margin and KKT residual against steps; who supports the margin."""

from __future__ import annotations

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from recon.chapters.pictures import image_rows
from recon.scoring.matching import rescale
from recon.store.results import Result

LABELS = {"loss-scaled": "loss-scaled (ours)", "gradient-descent": "gradient descent (reference)"}
COLOURS = dict(zip(LABELS, sns.color_palette("colorblind", 2), strict=True))


def plot_training(result: Result) -> Figure:
    """log E, smallest normalised margin and residual of layer 1 against steps, both methods."""
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.3))
    for method, label in LABELS.items():
        history = -result.array(f"history_{method}")
        observed = result.metrics[method]["observed"]
        steps = [row["step"] for row in observed]
        axes[0].plot(range(1, len(history) + 1), history, color=COLOURS[method], label=label)
        for ax, key in ((axes[1], "min_normalised_margin"), (axes[2], "kkt_residual")):
            ax.plot(steps, [row[key] for row in observed], color=COLOURS[method], marker="o", markersize=3)
    axes[0].axhline(12.43, color="0.4", linestyle=":", label="reference after 10⁶ epochs")
    axes[0].set(xscale="log", yscale="symlog", xlabel="step", ylabel="−log E (training loss)")
    axes[0].legend(fontsize=7)
    axes[1].set(xscale="log", xlabel="step", ylabel="smallest normalised margin")
    axes[2].set(xscale="log", xlabel="step", ylabel="KKT residual, layer 1", ylim=(0, 1.05))
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure


def plot_support(result: Result, n: int = 8) -> Figure:
    """The training images with the largest and with the smallest multipliers."""
    order = result.array("multipliers").argsort(descending=True)
    x = rescale(result.array("x_train") + result.array("mean"))
    value = result.array("multipliers")
    rows = [("largest λ", x[order[:n]], "grey"), ("smallest λ", x[order[-n:]], "grey")]
    return image_rows(rows, [[f"{v:.1e}" for v in value[part]] for part in (order[:n], order[-n:])])
