"""Figures of `leakage-appendix`: three ways to one energy, and pre-training."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from companion.chapters.leakage_appendix.metrics import Metrics
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, chart, image_rows
from companion.store.results import Result


def plot_constrained(result: Result[Metrics]) -> Figure:
    """The truck; the minimum-norm solution, and what the three make of it, with Tanh and with LeakyReLU; the null, a
    grey image."""
    truth = result.array("truth")[0]
    grey = torch.full_like(truth, 0.5)
    rows, titles = [("original", [truth], "grey")], [list[str]()]
    for word, prefix, found in (
        ("Tanh", "", result.metrics.constrained),
        ("LeakyReLU", "leaky ", result.metrics.leaky),
    ):
        panels = [
            ("start", f"least norm\n{found.start_mse:.4f}"),
            ("soft", f"soft\n{found.soft.mse:.4f}\n{found.soft.seconds:.0f} s"),
            ("lbfgs", f"L-BFGS\n{found.lbfgs.mse:.4f}\n{found.lbfgs.seconds:.0f} s"),
            ("trust region", f"trust region\n{found.trust_region.mse:.4f}\n{found.trust_region.seconds:.0f} s"),
        ]
        rows.append((word, [result.array(f"{prefix}{name}")[0] for name, _ in panels], "black"))
        titles.append([title for _, title in panels])
    rows.append(("a grey image\n(null)", [grey], "black"))
    titles.append([f"{(truth - grey).square().mean():.4f}"])
    return image_rows(rows, titles, size=0.85)


@chart
def plot_training(result: Result[Metrics]) -> Figure:
    """The norm of each image's gradient before and after training."""
    trained = result.metrics.trained
    figure, ax = plt.subplots(figsize=(PAGE, 3.8))
    for (name, row), colour in zip(trained.items(), SERIES, strict=False):
        for group, marker in MARKERS.items():
            norms = getattr(row, group)
            ax.plot(norms.before, norms.after, marker, color=colour, label=f"{name}, {WORDS[group]}", alpha=0.7)
    before = np.array([norm for row in trained.values() for group in MARKERS for norm in getattr(row, group).before])
    least, most = 0.7 * before.min(), 1.4 * before.max()
    ax.plot([least, most], [least, most], ":", color=REFERENCE)
    ax.set(xscale="log", yscale="log", xlim=(least, most))
    ax.set(xlabel="norm of the gradient, untrained", ylabel="norm of the gradient, pre-trained")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


MARKERS = {"seen": "x", "unseen": "o", "other": "^"}
WORDS = {"seen": "seen", "unseen": "unseen,\nof the two classes", "other": "of other\nclasses"}
FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "constrained": plot_constrained,
    "training": plot_training,
}
