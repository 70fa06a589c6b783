"""Figures of `leakage-appendix`: three ways to one energy, and pre-training."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from recon.chapters.leakage_appendix.metrics import Metrics
from recon.chapters.pictures import on_white, show_image
from recon.store.results import Result


def plot_constrained(result: Result[Metrics]) -> Figure:
    """The truck, the minimum-norm solution, and what the three make of it."""
    found = result.metrics.constrained
    panels = [
        ("truth", "original", "grey"),
        ("start", f"least norm\n{found.start_mse:.4f}", "black"),
        ("soft", f"soft\n{found.soft.mse:.4f}, {found.soft.seconds:.0f} s", "black"),
        ("lbfgs", f"L-BFGS\n{found.lbfgs.mse:.4f}, {found.lbfgs.seconds:.0f} s", "black"),
        ("trust region", f"trust region\n{found.trust_region.mse:.4f}, {found.trust_region.seconds:.0f} s", "black"),
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(9, 2.4))
    for ax, (name, title, frame) in zip(axes, panels, strict=True):
        show_image(ax, result.array(name)[0], frame, title)
        ax.title.set_fontsize(9)
    figure.tight_layout(pad=0.4)
    return on_white(figure)


def plot_training(result: Result[Metrics]) -> Figure:
    """Fig. 4: both losses by epoch; and the norm of each image's gradient before and after."""
    trained = result.metrics.trained
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.4))
    for (name, row), colour in zip(trained.items(), sns.color_palette("colorblind"), strict=False):
        axes[0].plot(row.train, color=colour, label=f"{name}, training")
        axes[0].plot(row.test, "--", color=colour, label=f"{name}, test")
        for group, marker in MARKERS.items():
            norms = getattr(row, group)
            axes[1].plot(norms.before, norms.after, marker, color=colour, label=f"{name}, {WORDS[group]}", alpha=0.7)
    axes[0].set(yscale="log", xlabel="epoch", ylabel="mean cross-entropy")
    before = np.array([norm for row in trained.values() for group in MARKERS for norm in getattr(row, group).before])
    least, most = 0.7 * before.min(), 1.4 * before.max()
    axes[1].plot([least, most], [least, most], ":", color="0.5")
    axes[1].set(xscale="log", yscale="log", xlim=(least, most))
    axes[1].set(xlabel="norm of the gradient, untrained", ylabel="pre-trained")
    axes[1].xaxis.set_minor_formatter(NullFormatter())
    axes[0].legend(fontsize=8)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    figure.tight_layout()
    return on_white(figure)


MARKERS = {"seen": "x", "unseen": "o", "other": "^"}
WORDS = {"seen": "seen", "unseen": "unseen, of the two classes", "other": "of other classes"}
FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "constrained": plot_constrained,
    "training": plot_training,
}
