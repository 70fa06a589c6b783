"""The predictor: what the truth leaves, against what is found."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from recon.chapters.decoreco_regimes.metrics import Metrics
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, chart
from recon.store.results import Result

MARKERS = {"noise": "o", "separated": "s", "refined": "^"}
WAYS = {"noise": "DecoReco from noise", "separated": "separated, no attack", "refined": "DecoReco from separated"}
REGIMES = {"margin": "margin regime", "decay": "weight decay"}


@chart
def plot_predictor(result: Result[Metrics]) -> Figure:
    """Each network and way: images found at NCC 0.6, less the best null, against what the training images leave of
    layer 1; and the attack's energy against the truth's, hollow where the attack is below."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.9), layout="constrained")
    colours = dict(zip(REGIMES, SERIES, strict=False))
    for cell in result.metrics.cells:
        style = {"color": colours[cell.regime], "marker": MARKERS[cell.way], "linestyle": ""}
        left.plot(cell.truth_share[0], cell.excess_share, **style)
        if cell.energy is not None:
            right.plot(cell.truth_energy, cell.energy, **style, fillstyle="none" if cell.below_truth else "full")
    left.axhline(0, color=REFERENCE, linewidth=0.8)
    left.set(xlabel="share of layer 1 that the training images leave", ylabel="found beyond the best null, share")
    left.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    right.set(xscale="log", yscale="log", xlabel="energy of the training images", ylabel="energy of the attack")
    ends = [cell.truth_energy for cell in result.metrics.cells]
    right.plot((min(ends), max(ends)), (min(ends), max(ends)), color=REFERENCE, linewidth=0.8)
    ways = [way for way in MARKERS if result.metrics.of(way)]
    handles = [plt.Line2D([], [], color=colour, lw=6, label=REGIMES[name]) for name, colour in colours.items()]
    handles += [plt.Line2D([], [], color=REFERENCE, marker=MARKERS[way], ls="", label=WAYS[way]) for way in ways]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    for axis in (right.xaxis, right.yaxis):
        axis.set_minor_formatter(NullFormatter())
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"predictor": plot_predictor}
