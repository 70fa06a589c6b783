"""Objective against confidence, and the images that collapse picks."""

from __future__ import annotations

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.collapse.metrics import Metrics
from recon.chapters.pictures import image_rows, on_white
from recon.store.results import Result

KINDS = {"train": ("training images", "o"), "held_out": ("held-out images", "^"), "noise": ("U(0, 1) noise", "x")}


def plot_objective(result: Result[Metrics], ax: Axes | None = None) -> Figure:
    """‖∇_θ E‖² of every image repeated, against |Φ|; the horizontal line is the true training data's objective."""
    ax = ax or plt.subplots(figsize=(6.4, 4))[1]
    for (kind, (label, marker)), colour in zip(KINDS.items(), sns.color_palette("colorblind", 3), strict=True):
        ax.scatter(
            result.array(f"confidence_{kind}"),
            result.array(f"objective_{kind}"),
            s=18,
            marker=marker,
            color=colour,
            label=label,
            alpha=0.7,
        )
    ax.axhline(result.metrics.objective_true, color="0.2", linestyle="--", label="the true training data")
    ax.set(
        yscale="log", xlabel="confidence |Φ(x)| (logit)", ylabel=r"objective $\|\nabla_\theta E\|^2$, image repeated"
    )
    ax.legend(fontsize=8)
    return on_white(ax.figure)


def plot_images(result: Result[Metrics]) -> Figure:
    """Some training images above the pair of training and the pair of held-out images that can replace them all."""
    metrics = result.metrics
    rows = [
        (f"training data\n{metrics.objective_true:.0e}", result.array("x_train"), "none"),
        (f"one pair of them\n{metrics.objective_repeated_train:.0e}", result.array("x_repeated_train"), "grey"),
        (f"held-out pair\n{metrics.objective_repeated_heldout:.0e}", result.array("x_repeated_held_out"), "black"),
    ]
    return image_rows(rows)


def plot_explained(result: Result[Metrics]) -> Figure:
    """Two objectives, the same networks and candidates: eq. (3), and the share of ‖θ‖² that is left unexplained."""
    nets = (result.metrics.explained, result.metrics.explained_small_start)
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.2), sharey=True)
    names = {
        "training images": "truth",
        "n held-out images": "held_out",
        "confident training pair": "train_pair",
        "confident held-out pair": "held_out_pair",
        "noise pair": "noise_pair",
    }
    for ax, net, colour in zip(axes, nets, sns.color_palette("colorblind", 2), strict=True):
        values = [getattr(net, field) for field in names.values()]
        ax.barh(list(names), values, color=colour)
        for row, value in enumerate(values):
            ax.text(min(value, 0.99) - 0.02, row, f"{value:.1%}", va="center", ha="right", fontsize=8, color="white")
        ax.axvline(1, color="0.2", linestyle="--")
        size = "PyTorch's default" if net.first_layer == "default" else net.first_layer
        ax.set(xlim=(0, 1.05), xlabel="left of ‖θ‖² (dashed: no images)", title=f"first layer's start: {size}")
        ax.title.set_fontsize(9)
    axes[0].invert_yaxis()
    return on_white(figure)
