"""Figures 1–4 of Runkel et al. (2024) beside a null row, energies, and the distances of Table 1."""

from __future__ import annotations

import matplotlib.pyplot as plt
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.pictures import image_rows, on_white
from recon.scoring.matching import nearest
from recon.store.results import Result

STARTS = ("random", "truth", "partition")
LABELS = {"random": "(a) random", "truth": "(b) truth", "partition": "(c) partition"}
COLOURS = dict(zip(STARTS, sns.color_palette("colorblind", 3), strict=True))


def plot_pairs(result: Result, start: str, suffix: str = "", n: int = 8) -> Figure:
    """start → result (black) → nearest training image (grey) [→ nearest start image] → null, one column an image.

    suffix: "_from_theta_star" for the second inner start of `bilevel-hidden`.  The last row is the null baseline: a
    held-out image's distance to *its* nearest training image is printed above it.
    """
    x_hat, train = result.array(f"x_hat_{start}{suffix}"), result.array("x_train")
    x_init = result.array({"random": f"x_init_random{suffix}", "truth": "x_train", "partition": "x_partition"}[start])
    columns = torch.linspace(0, len(x_hat) - 1, n).round().long()
    to_train = nearest(x_hat[columns], train, "l2")
    rows = [
        ("start", x_init[columns], "none"),
        ("result", x_hat[columns], "black"),
        ("nearest\ntraining image", train[to_train.index], "grey"),
    ]
    titles = [[], [], [f"{d:.1f}" for d in to_train.score]]
    if start == "partition":
        partition = result.array("x_partition")
        to_partition = nearest(x_hat[columns], partition, "l2")
        rows.append(("nearest\nstart image", partition[to_partition.index], "grey"))
        titles.append([f"{d:.1f}" for d in to_partition.score])
    held_out = result.array("x_held_out")
    held_out = held_out[torch.linspace(0, len(held_out) - 1, n).round().long()]
    rows.append(("null: held-out\nimage", held_out, "none"))
    titles.append([f"{d:.1f}" for d in nearest(held_out, train, "l2").score])
    return image_rows(rows, titles)


def plot_starts(result: Result) -> Figure:
    """All three starts in one figure: result above nearest training image."""
    train = result.array("x_train")
    rows, titles = [], []
    for start in STARTS:
        x_hat = result.array(f"x_hat_{start}")[:8]
        to_train = nearest(x_hat, train, "l2")
        rows += [(LABELS[start], x_hat, "black"), ("nearest", train[to_train.index], "grey")]
        titles += [[], [f"{d:.1f}" for d in to_train.score]]
    return image_rows(rows, titles)


def plot_energy(result: Result, ax: Axes | None = None) -> Figure:
    """Outer energy ‖θ* − θ(x)‖² against outer iterations, with the paper's values and the null."""
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    history = result.array("energy").clamp_min(1e-30)
    paper = {"random": 1.1214e-3, "truth": 1.3888e-3, "partition": 2.9749e-3}
    for column, start in enumerate(STARTS):
        ax.semilogy(history[:, column], color=COLOURS[start], label=LABELS[start])
        ax.axhline(paper[start], color=COLOURS[start], linestyle=":", linewidth=1)
    ax.axhline(result.metrics["null"]["other_data_sum"], color="0.4", linestyle="--", label="null: other data")
    ax.set(xlabel="outer iteration", ylabel=r"$\|\theta^*-\theta(x)\|^2$", ylim=(1e-10, None))
    ax.set_title("dotted: Table 1 of the paper", fontsize=9)
    ax.legend(fontsize=8)
    return on_white(ax.figure)


def plot_distances(result: Result, ax: Axes | None = None) -> Figure:
    """Distance per inner start, start of x and weight decay (mean and spread over seeds), with its nulls."""
    decays = list(result.metrics["weight_decays"])
    figure, axes = plt.subplots(1, len(decays), figsize=(4.2 * len(decays), 3.6), sharey=True, squeeze=False)
    figure.patch.set_facecolor("white")
    for axis, decay in zip(axes[0], decays, strict=True):
        values = result.metrics["weight_decays"][decay]
        for k, (inner, marker) in enumerate((("uniform", "o"), ("theta_star", "s"))):
            for j, start in enumerate(STARTS):
                cell = values[inner][start]
                axis.errorbar(
                    j + 0.2 * k - 0.1,
                    max(cell["distance_sum"], 1e-9),
                    yerr=min(cell["distance_sum_sd"], 0.9 * cell["distance_sum"]) or None,
                    marker=marker,
                    color=COLOURS[start],
                    label=f"θ⁰ {'uniform' if inner == 'uniform' else '= θ*'}" if j == 0 else None,
                    capsize=3,
                )
        null = values["null"]
        axis.axhline(null["other_seed_sum"], color="0.3", linestyle="--", label="null: other seed")
        axis.axhline(null["zero_sum"], color="0.6", linestyle=":", label=r"$\|\theta^*\|^2$")
        axis.set(yscale="log", title=f"weight decay {decay}", xlim=(-0.5, 2.5))
        axis.set_xticks(range(3), [LABELS[s] for s in STARTS], fontsize=8)
    axes[0, 0].set_ylabel(r"$\|\theta^*-\theta\|^2$, sum over parameters")
    axes[0, -1].legend(fontsize=7)
    figure.tight_layout()
    return figure


def plot_hypergradients(rows: list[dict], ax: Axes | None = None) -> Figure:
    """Relative error of each way to a hypergradient against its cost; rows of {method, error, seconds}."""
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
