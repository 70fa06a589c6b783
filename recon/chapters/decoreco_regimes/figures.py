"""The predictor: what the truth leaves, against what is found."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from recon.chapters.decoreco_regimes.metrics import Metrics
from recon.chapters.pictures import on_white
from recon.store.results import Result

MARKERS = {"noise": "o", "separated": "s", "refined": "^"}


def plot_predictor(result: Result[Metrics]) -> Figure:
    """Each network and way: images found at NCC 0.6, less the best null, against what the training images leave of
    layer 1; and the attack's energy against the truth's, hollow where the attack is below."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.6))
    colours = dict(zip(("margin", "decay"), sns.color_palette("colorblind", 2), strict=True))
    for cell in result.metrics.cells:
        style = {"color": colours[cell.regime], "marker": MARKERS[cell.way], "linestyle": ""}
        left.plot(cell.truth_share[0], cell.excess_share, **style)
        if cell.energy is not None:
            right.plot(cell.truth_energy, cell.energy, **style, fillstyle="none" if cell.below_truth else "full")
    left.axhline(0, color="0.6", linewidth=0.8)
    left.set(xscale="log", xlabel="layer 1 that the training images leave", ylabel="found beyond the best null, share")
    right.set(xscale="log", yscale="log", xlabel="energy of the training images", ylabel="energy of the attack")
    ends = [cell.truth_energy for cell in result.metrics.cells]
    right.plot((min(ends), max(ends)), (min(ends), max(ends)), color="0.6", linewidth=0.8)
    ways = [way for way in MARKERS if result.metrics.of(way)]
    handles = [plt.Line2D([], [], color=colour, marker="o", ls="", label=name) for name, colour in colours.items()]
    handles += [plt.Line2D([], [], color="0.4", marker=MARKERS[way], ls="", label=f"from {way}") for way in ways]
    left.legend(handles=handles, fontsize=8)
    return on_white(figure)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"predictor": plot_predictor}
