"""Energies at equal footing, before and after the attack."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.decoreco_truth.metrics import Metrics
from companion.chapters.pictures import PAGE, STARTS, Colour, chart, end_labels, note
from companion.store.results import Result

NAMES = {"truth": "training images", "partition": "other photographs", "random": "noise"}


@chart
def plot_energies(result: Result[Metrics]) -> Figure:
    """Share of layer 1 left unexplained: n images with fitted multipliers, and the same after the attack."""
    before, after = result.metrics.energy_fitted, result.metrics.energy_after_attack
    figure, (above, below) = plt.subplots(2, 1, figsize=(PAGE, 4.9), height_ratios=(2, 3))
    ends: list[tuple[float, str, Colour]] = []
    for y, (name, words) in enumerate(NAMES.items()):
        colour, (old, new) = STARTS[name], (getattr(before, name), getattr(after, name))
        above.plot([new, old], [y, y], color="#cccccc", lw=2, zorder=1)
        above.plot(old, y, "o", color=colour, markersize=8, markerfacecolor="white", markeredgewidth=1.8)
        above.plot(new, y, "o", color=colour, markersize=8)
        for value, label in ((old, "as they are"), (new, "attacked")):
            text = f"{value:.2g}" + (f", {label}" if y == 0 else "")
            if value == min(old, new):
                note(above, text, (value, y), (-8, 0), colour, "right")
            else:
                note(above, text, (value, y), (8, 0), colour)
        history = result.array(f"history_{name}")
        below.plot(history, color=colour)
        ends.append((float(history[-1]), f"from {words}", colour))
    above.set_yticks(range(len(NAMES)), list(NAMES.values()))
    above.set(xscale="log", ylim=(2.5, -0.6), xlabel="unexplained share of ‖θ₁‖²")
    for value in (before.truth, after.truth):
        above.axvline(value, color=STARTS["truth"], linestyle=":", lw=1, zorder=0)
    values = [getattr(shares, name) for shares in (before, after) for name in NAMES]
    above.set_xlim(min(values) / 10, max(values) * 3)
    below.set(yscale="log", xlabel="step", ylabel="energy (layer 1)", xlim=(0, len(history) - 1))
    end_labels(below, ends)
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"energy": plot_energies}
