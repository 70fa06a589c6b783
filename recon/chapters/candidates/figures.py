"""Figures: pairs and what is between them, how far they go, what the energy sees, and who is told from whom."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from recon.chapters.candidates.metrics import CellRow, MemberCell, MemberMetrics, SetMetrics
from recon.chapters.candidates.names import (
    FREE,
    HELD_OUT,
    KKT,
    NOISE,
    PHOTOGRAPH,
    SHADOWED,
    STARTS,
    TRUTH,
    UNIFORM,
)
from recon.chapters.pictures import (
    FREE as FREE_COLOUR,
)
from recon.chapters.pictures import (
    HELD_OUT as HELD_OUT_COLOUR,
)
from recon.chapters.pictures import (
    NOISE as NOISE_COLOUR,
)
from recon.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    chart,
    end_labels,
    image_rows,
    note,
    shown,
)
from recon.scoring.matching import nearest
from recon.scoring.metrics import ncc
from recon.store.results import Result

START_WORDS = {"small": "small start", "default": "PyTorch's start", "default, decay": "PyTorch's start,\nweight decay"}
SCORE_COLOURS: dict[str, Colour] = {
    KKT[0]: TRAIN,
    SHADOWED[0]: SERIES[1],
    SHADOWED[1]: SERIES[1],
    SHADOWED[2]: SERIES[3],
    SHADOWED[3]: SERIES[3],
    FREE[1]: SERIES[0],
    FREE[3]: FREE_COLOUR,
    FREE[0]: REFERENCE,
}


def chosen(result: Result[SetMetrics], n: int) -> Tensor:
    """Numbers of n training images, from the one whose pair goes farthest to the one whose pair goes least far."""
    x, v = result.array("x_train"), result.array(f"move_{NOISE}")
    order = ncc(x + v, x).diagonal().argsort()
    return order[torch.linspace(0, len(x) - 1, min(n, len(x))).round().long()]


def plot_pairs(result: Result[SetMetrics], n: int = 8) -> Figure:
    """Training images (grey), the two images of their pairs along noise, one along another photograph, and that one."""
    rows = chosen(result, n)
    x, mean = result.array("x_train")[rows], result.array("mean")
    noise, photograph = (result.array(f"move_{name}")[rows] for name in (NOISE, PHOTOGRAPH))
    target = result.array("x_held_out")[rows]
    drawn = [
        ("training image x", x, "grey"),
        ("x + v", x + noise, "black"),
        ("x − v", x - noise, "black"),
        ("x + u", x + photograph, "black"),
        ("photograph that\nu was to lead to", target, "grey"),
    ]
    found = [ncc(each, x).diagonal().tolist() for _, each, _ in drawn[1:4]]
    titles = [[], *([f"{value:.2f}".replace("-", "−") for value in row] for row in found), []]
    return image_rows([(name, (each + mean).clamp(0, 1), frame) for name, each, frame in drawn], titles)


def plot_twin(result: Result[SetMetrics], n: int = 8) -> Figure:
    """The two images of a pair, which were trained on; what separation finds; and the image between, which was not."""
    rows = chosen(result, n)
    x, v, mean = result.array("x_train")[rows], result.array(f"move_{NOISE}")[rows], result.array("mean")
    match = nearest(x, result.array("x_twin"), "ncc")
    found = result.array("x_twin")[match.index]
    members = torch.stack([ncc(found, x + s * v).diagonal() for s in (1, -1)])
    titles = [[f"{a:.2f}" for a in members[0]], [f"{a:.2f}" for a in members[1]], [], [f"{a:.2f}" for a in match.score]]
    drawn = [
        ("trained on", (x + v + mean).clamp(0, 1), "grey"),
        ("trained on", (x - v + mean).clamp(0, 1), "grey"),
        ("found by separation", shown(result, found), "black"),
        ("between, never\ntrained on", (x + mean).clamp(0, 1), "none"),
    ]
    return image_rows(drawn, titles)


@chart
def plot_slide(result: Result[SetMetrics]) -> Figure:
    """Share of images that look natural, and sparsity of their edges, from the training images to the pairs."""
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.0))
    colours = {NOISE: NOISE_COLOUR, PHOTOGRAPH: HELD_OUT_COLOUR}
    words = {NOISE: "towards noise", PHOTOGRAPH: "towards a\nphotograph"}
    for ax, values in zip(axes, ("natural", "edges"), strict=True):
        for name, way in result.metrics.slides.items():
            ax.plot(way.ncc, getattr(way, values), "o-", ms=3.5, color=colours[name], label=words[name])
        ax.set(
            xlabel="NCC with the training image",
            xlim=(1.01, min(way.ncc[-1] for way in result.metrics.slides.values()) - 0.02),
        )
    axes[0].axhline(result.metrics.null_natural, color=REFERENCE, lw=0.8, ls=":")
    axes[0].set(ylabel="share that looks natural", ylim=(-0.03, 1.03))
    axes[1].set(ylabel="sparsity of the edges")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


@chart
def plot_cells(result: Result[SetMetrics]) -> Figure:
    """How far pairs go within a cell, against the width of the network, by start."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.2))
    ends: list[tuple[float, str, Colour]] = []
    for start, colour in zip(STARTS, (TRAIN, SERIES[1], SERIES[0]), strict=True):
        rows = sorted((row for row in result.metrics.cells if row.start == start), key=lambda row: row.width)
        ax.plot([row.width for row in rows], [row.reach for row in rows], "o-", color=colour)
        ends.append((rows[-1].reach, START_WORDS[start], colour))
    inputs = result.metrics.cells[0].inputs
    ax.axvline(inputs, color=REFERENCE, lw=0.8, ls=":")
    ax.set(
        xscale="log",
        xlabel="width of the layers",
        ylabel="length of v, share of what\nblack and white leave",
        ylim=(-0.03, 1.05),
    )
    ax.set_xticks(sorted({row.width for row in result.metrics.cells}))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    note(ax, "as many units\nas inputs", (inputs, 0.12), (5, 0), REFERENCE)
    end_labels(ax, ends)
    return figure


@chart
def plot_energies(result: Result[SetMetrics]) -> Figure:
    """What sets of images leave of the weights: with the random start, and without it."""
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 2.6), sharey=True)
    names = (TRUTH, NOISE, HELD_OUT, UNIFORM)
    colours = (TRAIN, NOISE_COLOUR, HELD_OUT_COLOUR, REFERENCE)
    for ax, part, title in zip(axes, ("with_floor", "without"), ("of θ*", "of θ* − θ⁰"), strict=True):
        for y, (name, colour) in enumerate(zip(names, colours, strict=True)):
            value = getattr(result.metrics.energies[name], part)
            ax.plot([0, value], [y, y], color="#dddddd", lw=2, zorder=1)
            ax.plot(value, y, "o", ms=8, color=colour)
            note(ax, f"{value:.3g}", (value, y), (8, 0), colour)
        ax.set(title=title, xlabel="energy", ylim=(len(names) - 0.5, -0.5))
        ax.set_xlim(0, 1.35 * max(getattr(each, part) for each in result.metrics.energies.values()))
    axes[0].axvline(result.metrics.floor, color=REFERENCE, lw=0.8, ls=":")
    axes[0].set_yticks(range(len(names)), names)
    return figure


# ------------------------------------------------------------------------------------------------------ membership


def curve(score: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False- and true-positive rate from the strictest threshold on, equal scores together."""
    order = np.argsort(-score, kind="stable")
    last = np.append(score[order][1:] != score[order][:-1], True)
    hits, misses = member[order].cumsum()[last], (~member[order]).cumsum()[last]
    return misses / (~member).sum(), hits / member.sum()


def widest(metrics: SetMetrics, start: str) -> CellRow:
    """The row of a start with the largest width."""
    return max((row for row in metrics.cells if row.start == start), key=lambda row: row.width)


def best_shadowed(cell: MemberCell) -> str:
    """The attack with shadow networks that has the largest TPR at 1 % FPR."""
    return max(SHADOWED, key=lambda name: cell.scores[name].many.tpr_1)


@chart
def plot_roc(result: Result[MemberMetrics]) -> Figure:
    """ROC in the larger pool on logarithmic axes, a panel a recipe: multipliers, shadow networks, tests of one line."""
    cells = [cell for cell in result.metrics.cells if cell.shadows]
    figure, axes = plt.subplots(len(cells), 1, figsize=(PAGE, 2.7 * len(cells)), sharex=True, squeeze=False)
    for ax, cell in zip(axes[:, 0], cells, strict=True):
        others = cell.n_train * result.metrics.ratio
        member = np.arange(cell.n_train + others) < cell.n_train
        for name in (KKT[0], best_shadowed(cell), FREE[1], FREE[3], FREE[0]):
            score = result.array(f"{cell.recipe}, {cell.n_train}, {cell.width}: {name}").double().numpy()
            false, true = curve(score, member)
            told = f"{name}: {cell.scores[name].many.auc:.2f}"
            width = 2.6 if name == KKT[0] else 1.4
            ax.step(
                np.append(0.5 / others, np.maximum(false, 0.5 / others)),
                np.append(0, true),
                where="post",
                color=SCORE_COLOURS[name],
                lw=width,
                label=told,
            )
        grid = np.geomspace(0.5 / others, 1, 50)
        ax.plot(grid, grid, color=REFERENCE, lw=0.8, ls=":")
        ax.set(xscale="log", ylim=(-0.02, 1.03), ylabel="training images named", title=cell.recipe)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title="area under the curve")
    axes[-1, 0].set_xlabel("share of the other candidates named")
    return figure


@chart
def plot_scores(result: Result[MemberMetrics]) -> Figure:
    """TPR at 1 % FPR of every score, a panel a recipe, with intervals, at the number of images with shadow networks."""
    cells = [cell for cell in result.metrics.cells if cell.shadows]
    names = (*KKT, *SHADOWED, *FREE)
    figure, axes = plt.subplots(1, len(cells), figsize=(PAGE, 3.6), sharey=True, squeeze=False)
    for ax, cell in zip(axes[0], cells, strict=True):
        for y, name in enumerate(names):
            _interval(ax, y, cell, name)
        ax.set(title=cell.recipe, xlim=(-0.03, 1.05), xlabel="TPR at 1 % FPR", ylim=(len(names) - 0.4, -0.6))
    axes[0, 0].set_yticks(range(len(names)), names)
    return figure


def _interval(ax: Axes, y: int, cell: MemberCell, name: str) -> None:
    rates = cell.scores[name].many
    colour = TRAIN if name in KKT else SERIES[1] if name in SHADOWED else FREE_COLOUR
    ax.plot(rates.tpr_1_interval, [y, y], color=colour, lw=1.5)
    known = name.endswith("known")
    ax.plot(rates.tpr_1, y, "o", ms=6, color=colour, mfc="white" if known else colour, mew=1.5)


SET_FIGURES: dict[str, Callable[[Result[SetMetrics]], Figure]] = {
    "pairs": plot_pairs,
    "twin": plot_twin,
    "slide": plot_slide,
    "cells": plot_cells,
    "energies": plot_energies,
}
MEMBER_FIGURES: dict[str, Callable[[Result[MemberMetrics]], Figure]] = {"roc": plot_roc, "scores": plot_scores}
