"""ROC and precision–recall of what the adversary has, with bands over networks."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from recon.chapters.decoreco_adversary.metrics import Metrics
from recon.store.results import Result

NAMES = ("contribution", "multiplier", "norm", "margin", "agreement", "sharpness", "combined")


def plot_roc(result: Result[Metrics]) -> Figure:
    """ROC and precision–recall of every kind of evidence; the band is ± one standard deviation over networks."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4))
    grid = np.linspace(0, 1, 101)
    shown = [name for name in NAMES if f"roc_{name}" in result.arrays]
    colours = dict(zip(NAMES, sns.color_palette("colorblind"), strict=False)) | {"combined": "black"}
    for name in shown:
        colour = colours[name]
        area = result.metrics.evidence[name].auc.mean
        for ax, kind in ((left, "roc"), (right, "precision")):
            curves = result.array(f"{kind}_{name}").numpy()
            mean, sd = curves.mean(0), curves.std(0)
            width = 2.5 if name == "combined" else 1.2
            ax.plot(grid, mean, color=colour, linewidth=width, label=f"{name} ({area:.2f})")
            ax.fill_between(grid, mean - sd, mean + sd, color=colour, alpha=0.12)
    left.plot([0, 1], [0, 1], color="0.5", linestyle=":")
    left.set(xlabel="false reconstructions accepted", ylabel="true ones accepted", title="ROC (area)")
    left.legend(fontsize=7)
    share = result.metrics.share_true.mean
    right.axhline(share, color="0.5", linestyle=":", label=f"chance ({share:.2f})")
    right.set(xlabel="recall", ylabel="precision", title="precision–recall", ylim=(0, 1.02))
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"roc": plot_roc}
