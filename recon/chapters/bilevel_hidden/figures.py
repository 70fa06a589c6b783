"""Figure of the one-hidden-layer chapter: distances of Table 1, beside their nulls."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from recon.chapters.bilevel_hidden.metrics import Metrics
from recon.chapters.bilevel_pictures import COLOURS, LABELS
from recon.store.results import Result

MARKERS = {"uniform": ("o", "θ⁰ uniform"), "theta_star": ("s", "θ⁰ = θ*")}


def plot_distances(result: Result[Metrics]) -> Figure:
    """Distance per inner start, start of x and weight decay (mean and spread over seeds), with its nulls."""
    decays = sorted(result.metrics.weight_decays.items())
    figure, axes = plt.subplots(1, len(decays), figsize=(4.2 * len(decays), 3.6), sharey=True, squeeze=False)
    figure.patch.set_facecolor("white")
    for axis, (decay, found) in zip(axes[0], decays, strict=True):
        for k, (inner, by_start) in enumerate(found.inner_starts().items()):
            marker, label = MARKERS[inner]
            for j, (start, reached) in enumerate(by_start.starts().items()):
                axis.errorbar(
                    j + 0.2 * k - 0.1,
                    max(reached.distance_sum, 1e-9),
                    yerr=min(reached.distance_sum_sd, 0.9 * reached.distance_sum) or None,
                    marker=marker,
                    color=COLOURS[start],
                    label=label if j == 0 else None,
                    capsize=3,
                )
        axis.axhline(found.null.other_seed_sum, color="0.3", linestyle="--", label="null: other seed")
        axis.axhline(found.null.zero_sum, color="0.6", linestyle=":", label=r"$\|\theta^*\|^2$")
        axis.set(yscale="log", title=f"weight decay {decay}", xlim=(-0.5, 2.5))
        axis.set_xticks(range(len(LABELS)), list(LABELS.values()), fontsize=8)
    axes[0, 0].set_ylabel(r"$\|\theta^*-\theta\|^2$, sum over parameters")
    axes[0, -1].legend(fontsize=7)
    figure.tight_layout()
    return figure
