"""Figures of the affine bilevel chapter: energies of the attack, and ways to a hypergradient."""

from __future__ import annotations

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.bilevel_affine.metrics import Metrics
from recon.chapters.bilevel_common import PAPER_AFFINE, STARTS
from recon.chapters.bilevel_pictures import COLOURS, LABELS
from recon.chapters.pictures import on_white
from recon.store.results import Result


def plot_energy(result: Result[Metrics], ax: Axes | None = None) -> Figure:
    """Outer energy ‖θ* − θ(x)‖² of our descent and of the plain one, with the paper's values and the null."""
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    history, plain = (result.array(name).clamp_min(1e-30) for name in ("energy", "energy_plain"))
    for column, start in enumerate(STARTS):
        ax.semilogy(history[:, column], color=COLOURS[start], label=LABELS[start])
        ax.semilogy(plain[:, column], color=COLOURS[start], linestyle="--", linewidth=1)
        ax.axhline(PAPER_AFFINE[start], color=COLOURS[start], linestyle=":", linewidth=1)
    ax.axhline(result.metrics.null.other_data_sum, color="0.4", label="null: other data")
    ax.set(xlabel="outer iteration", ylabel=r"$\|\theta^*-\theta(x)\|^2$", ylim=(1e-10, None))
    ax.set_title("dashed: plain descent; dotted: Table 1 of the paper", fontsize=9)
    ax.legend(fontsize=8)
    return on_white(ax.figure)


def plot_hypergradients(rows: list[dict], ax: Axes | None = None) -> Figure:
    """Relative error of each way to a hypergradient against its cost; rows of {family, work, error}."""
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    families = list(dict.fromkeys(row["family"] for row in rows))
    for family, colour in zip(families, sns.color_palette("colorblind", len(families)), strict=True):
        mine = [row for row in rows if row["family"] == family]
        ax.plot(
            [r["work"] for r in mine], [max(r["error"], 1e-17) for r in mine], "o-", color=colour, label=family, ms=5
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="gradient-sized evaluations of E",
        ylabel="relative error of the hypergradient",
    )
    ax.legend(fontsize=8)
    return on_white(ax.figure)
