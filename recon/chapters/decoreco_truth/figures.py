"""Energies at equal footing, before and after the attack."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from recon.chapters.decoreco_truth.metrics import Metrics
from recon.store.results import Result

STARTS = ("truth", "partition", "random")


def plot_energies(result: Result[Metrics]) -> Figure:
    """Share of layer 1 left unexplained: n images with fitted multipliers, and the same after the attack."""
    before, after = result.metrics.energy_fitted, result.metrics.energy_after_attack
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    place = np.arange(len(STARTS))
    colours = sns.color_palette("colorblind", 2)
    as_they_are = [before.truth, before.partition, before.random]
    attacked = [after.truth, after.partition, after.random]
    left.barh(place - 0.2, as_they_are, height=0.38, color=colours[0], label="as they are, fitted λ")
    left.barh(place + 0.2, attacked, height=0.38, color=colours[1], label="after the attack")
    left.axvline(before.truth, color=colours[0], linestyle="--", label="the truth as it is")
    left.axvline(after.truth, color=colours[1], linestyle="--", label="the truth after the attack")
    left.set(xscale="log", yticks=place, yticklabels=STARTS, xlabel="unexplained share of ‖θ₁‖²")
    left.invert_yaxis()
    left.legend(fontsize=7)
    for name, colour in zip(STARTS, sns.color_palette("colorblind", len(STARTS)), strict=True):
        right.plot(result.array(f"history_{name}"), color=colour, label=f"from {name}")
    right.set(yscale="log", xlabel="step", ylabel="energy (layer 1)")
    right.legend(fontsize=7)
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"energy": plot_energies}
