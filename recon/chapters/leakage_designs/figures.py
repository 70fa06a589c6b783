"""Figure of `leakage-designs`."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from recon.chapters.leakage_designs.metrics import Metrics
from recon.chapters.pictures import on_white
from recon.store.results import Result


def plot_designs(result: Result[Metrics]) -> Figure:
    """CosineTV's PSNR against c(M), and against what all layers together lack; full dots: found by Gauss–Newton."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    rows = result.metrics.designs
    panels = (
        (axes[0], [-row.c for row in rows], "−c(M): what single layers lack"),
        (axes[1], [-min(row.missing) for row in rows], "what all layers together lack"),
    )
    for ax, x, label in panels:
        for at, row in zip(x, rows, strict=True):
            given = all(row.found)
            ax.plot(at, row.decibels("cosine"), "o", color="#0173b2", fillstyle="full" if given else "none")
        ax.set(xscale="symlog", xlabel=f"{label} (equations)")
        ax.set_xlim(left=-0.3)
    axes[0].plot([], [], "o", color="#0173b2", label="Gauss–Newton finds every image")
    axes[0].plot([], [], "o", color="#0173b2", fillstyle="none", label="not")
    axes[0].set_ylabel("PSNR of CosineTV (dB, peak 1)")
    axes[0].legend(fontsize=9)
    figure.tight_layout()
    return on_white(figure)
