"""Figure of `leakage-designs`."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.leakage_designs.metrics import Metrics
from companion.chapters.pictures import PAGE, SERIES, chart
from companion.store.results import Result


@chart
def plot_designs(result: Result[Metrics]) -> Figure:
    """CosineTV's PSNR against c(M), and against what all layers together lack; full dots: found by Gauss–Newton."""
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.6), sharey=True, layout="constrained")
    rows = result.metrics.designs
    panels = (
        (axes[0], [-row.c for row in rows], "−c(M): what single layers lack"),
        (axes[1], [-min(row.missing) for row in rows], "what all layers together lack"),
    )
    for ax, x, label in panels:
        for at, row in zip(x, rows, strict=True):
            given = all(row.found)
            ax.plot(at, row.decibels("cosine"), "o", color=SERIES[0], fillstyle="full" if given else "none")
        ax.set(xscale="symlog", xlabel=f"{label} (equations)")
        ax.set_xlim(left=-0.3)
        ax.set_xticks([0, *ax.get_xticks()[ax.get_xticks() >= 10][::2]])
    words = {SERIES[0]: "Gauss–Newton finds every image", "white": "it does not"}
    dots = [plt.Line2D([], [], color=SERIES[0], marker="o", ls="", mfc=k, label=v) for k, v in words.items()]
    figure.legend(handles=dots, loc="outside upper center", ncols=2)
    axes[0].set_ylabel("PSNR of CosineTV (dB, peak 1)")
    return figure
