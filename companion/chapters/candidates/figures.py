"""Figures: pairs, how they lose their looks, what separation makes of them, and who is told from whom."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.candidates.metrics import MemberCell, MemberMetrics, SetMetrics
from companion.chapters.candidates.names import FREE, KKT, NOISE, PHOTOGRAPH, SHADOWED
from companion.chapters.pictures import (
    FREE as FREE_COLOUR,
)
from companion.chapters.pictures import (
    HELD_OUT as HELD_OUT_COLOUR,
)
from companion.chapters.pictures import (
    NOISE as NOISE_COLOUR,
)
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, TRAIN, chart, image_rows, note
from companion.store.results import Result
from recon.scoring.metrics import ncc


def chosen(result: Result[SetMetrics], n: int) -> Tensor:
    """Numbers of n training images, from the one whose pair goes farthest to the one whose pair goes least far."""
    x, v = result.array("x_train"), result.array(f"move_{NOISE}")
    order = ncc(x + v, x).diagonal().argsort()
    return order[torch.linspace(0, len(x) - 1, min(n, len(x))).round().long()]


def plot_pairs(result: Result[SetMetrics], n: int = 8) -> Figure:
    """Training images (grey), and the two images of their pairs along noise."""
    rows = chosen(result, n)
    x, noise, mean = result.array("x_train")[rows], result.array(f"move_{NOISE}")[rows], result.array("mean")
    drawn = [("training image x", x, "grey"), ("x + v", x + noise, "black"), ("x − v", x - noise, "black")]
    found = [ncc(each, x).diagonal().tolist() for _, each, _ in drawn[1:]]
    titles = [[], *([f"{value:.2f}".replace("-", "−") for value in row] for row in found)]
    return image_rows([(name, (each + mean).clamp(0, 1), frame) for name, each, frame in drawn], titles)


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
def plot_separated(result: Result[SetMetrics]) -> Figure:
    """Images above NCC 0.7 that separation finds in the network trained on the images, and in that trained on pairs."""
    twin, n = result.metrics.twin, result.metrics.n_train
    rows = (
        (f"trained on the {n} images:\nof these", twin.original.ncc_07, TRAIN),
        (
            f"trained on {2 * n} images of pairs:\nof the {n} between, never trained on",
            twin.matches.ncc_07,
            HELD_OUT_COLOUR,
        ),
        (f"of the {2 * n} trained on", twin.members.ncc_07, TRAIN),
        ("best null", twin.best_null.ncc_07, FREE_COLOUR),
    )
    figure, ax = plt.subplots(figsize=(PAGE, 2.2))
    for y, (_, count, colour) in enumerate(rows):
        ax.barh(y, count, color=colour, height=0.6)
        note(ax, f"{count}", (count, y), (5, 0), colour)
    ax.set_yticks(range(len(rows)), [words for words, *_ in rows])
    ax.set(xlabel="images above NCC 0.7", ylim=(len(rows) - 0.5, -0.5))
    ax.set_xlim(0, 1.12 * max(1, *(count for _, count, _ in rows)))
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
    "slide": plot_slide,
    "separated": plot_separated,
}
MEMBER_FIGURES: dict[str, Callable[[Result[MemberMetrics]], Figure]] = {"scores": plot_scores}
