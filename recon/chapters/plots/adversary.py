"""Energies at equal footing; ROC and precision–recall of what the adversary has, with bands over networks."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from recon.store.results import Result

NAMES = ("contribution", "multiplier", "norm", "margin", "agreement", "sharpness", "combined")


def plot_energies(result: Result) -> Figure:
    """Share of layer 1 left unexplained: n images with fitted multipliers, and the same after the attack."""
    before, after = result.metrics["energy_fitted"], result.metrics["energy_after_attack"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    names = list(before)
    place = np.arange(len(names))
    colours = sns.color_palette("colorblind", 2)
    left.barh(place - 0.2, [before[n] for n in names], height=0.38, color=colours[0], label="as they are, fitted λ")
    left.barh(place + 0.2, [after[n] for n in names], height=0.38, color=colours[1], label="after the attack")
    left.axvline(before["truth"], color="0.3", linestyle="--", label="the true training images")
    left.set(xscale="log", yticks=place, yticklabels=names, xlabel="unexplained share of ‖θ₁‖²")
    left.invert_yaxis()
    left.legend(fontsize=7)
    for name, colour in zip(names, sns.color_palette("colorblind", len(names)), strict=True):
        right.plot(result.array(f"history_{name}"), color=colour, label=f"from {name}")
    right.set(yscale="log", xlabel="step", ylabel="energy (layer 1)")
    right.legend(fontsize=7)
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure


def plot_roc(result: Result) -> Figure:
    """ROC and precision–recall of every kind of evidence; the band is ± one standard deviation over networks."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4))
    grid = np.linspace(0, 1, 101)
    shown = [name for name in NAMES if f"roc_{name}" in result.arrays]
    colours = dict(zip(NAMES, sns.color_palette("colorblind"), strict=False)) | {"combined": "black"}
    for name in shown:
        colour = colours[name]
        auc = result.metrics["evidence"][name]["auc"]
        for ax, kind in ((left, "roc"), (right, "precision")):
            curves = result.array(f"{kind}_{name}").numpy()
            mean, sd = curves.mean(0), curves.std(0)
            width = 2.5 if name == "combined" else 1.2
            ax.plot(grid, mean, color=colour, linewidth=width, label=f"{name} ({auc['mean']:.2f})")
            ax.fill_between(grid, mean - sd, mean + sd, color=colour, alpha=0.12)
    left.plot([0, 1], [0, 1], color="0.5", linestyle=":")
    left.set(xlabel="false reconstructions accepted", ylabel="true ones accepted", title="ROC (area)")
    left.legend(fontsize=7)
    share = result.metrics["share_true"]["mean"]
    right.axhline(share, color="0.5", linestyle=":", label=f"chance ({share:.2f})")
    right.set(xlabel="recall", ylabel="precision", title="precision–recall", ylim=(0, 1.02))
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure
