"""Figure of chapter 14: rank against unknowns."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from recon.chapters.leakage_rank.metrics import Metrics
from recon.chapters.pictures import on_white
from recon.store.results import Result


def plot_rank(result: Result[Metrics]) -> Figure:
    """Every layer's rank against its unknowns: what is missing is what cannot be solved for."""
    rows = [
        (f"{name}\nlayer {i}", unknowns, unknowns + rd)
        for name, row in result.metrics.networks.items()
        for i, (unknowns, rd) in enumerate(zip(row.unknowns, row.rd, strict=True), start=1)
    ]
    figure, ax = plt.subplots(figsize=(9.5, 4))
    place = np.arange(len(rows))
    ax.bar(place, [r[1] for r in rows], color="#d9d9d9", label="unknowns x_{i−1}")
    ax.bar(place, [r[2] for r in rows], color="#0173b2", width=0.5, label="rank of U_i")
    ax.set_xticks(place, [r[0] for r in rows], fontsize=7, rotation=60)
    ax.set(ylabel="number")
    ax.legend(fontsize=8)
    figure.tight_layout(pad=0.4)
    return on_white(figure)
