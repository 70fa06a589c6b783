"""Figures of the affine bilevel chapter: energies of the attack, and ways to a hypergradient."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from recon.chapters.bilevel_affine.metrics import Metrics
from recon.chapters.bilevel_common import PAPER_AFFINE, STARTS
from recon.chapters.bilevel_pictures import COLOURS, LABELS
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, chart, end_labels, note
from recon.store.results import Result


@chart
def plot_energy(result: Result[Metrics]) -> Figure:
    """Outer energy ‖θ* − θ(x)‖² of our descent and of the plain one, with the paper's values and the null."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.8))
    history, plain = (result.array(name).clamp_min(1e-30) for name in ("energy", "energy_plain"))
    for column, start in enumerate(STARTS):
        colour = COLOURS[start]
        ax.semilogy(history[:, column], color=colour)
        ax.semilogy(plain[:, column], color=colour, linestyle="--", linewidth=1)
        ax.axhline(PAPER_AFFINE[start], color=colour, linestyle=":", linewidth=1)
        ax.plot(len(history) - 1, history[-1, column], "o", color=colour, markersize=4)
        note(ax, LABELS[start], (len(history) - 1, float(history[-1, column])), (7, 0), colour)
    null = result.metrics.null.other_data_sum
    ax.axhline(null, color=REFERENCE)
    ax.set(xlabel="outer iteration", ylabel=r"$\|\theta^*-\theta(x)\|^2$", xlim=(0, max(len(plain), len(history)) - 1))
    ax.set_title("full: our descent; dashed: plain descent; dotted: Table 1 of the paper")
    end_labels(ax, [(null, "null: other\ndata", REFERENCE)])
    return figure


@chart
def plot_hypergradients(rows: list[dict]) -> Figure:
    """Relative error of each way to a hypergradient against its cost; rows of {family, work, error}."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    families = list(dict.fromkeys(row["family"] for row in rows))
    ends: list[tuple[float, str, Colour]] = []
    for family, colour in zip(families, SERIES, strict=False):
        mine = [row for row in rows if row["family"] == family]
        errors = [max(row["error"], 1e-17) for row in mine]
        ax.plot([row["work"] for row in mine], errors, "o-", color=colour, ms=5)
        ends.append((errors[-1], family, colour))
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="gradient-sized evaluations of E",
        ylabel="relative error of the hypergradient",
    )
    end_labels(ax, ends)
    return figure
