"""Figures of chapter 6: the mixture, all images that come out of it, and how sure an adversary can be."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from recon.chapters.pictures import (
    FRAMES,
    FREE,
    HELD_OUT,
    PAGE,
    REFERENCE,
    TRAIN,
    as_pixels,
    chart,
    end_labels,
    image_rows,
    note,
    photographs,
)
from recon.chapters.separation.metrics import Metrics
from recon.chapters.tables import NULL_NAMES
from recon.scoring.matching import one_to_one, padded
from recon.scoring.nulls import HELD_OUT as HELD_OUT_NAME
from recon.store.results import Result

PIXEL_STD = 0.25
#: what costs nothing and is no held-out image, in words
NULLS = {name: words for name, words in NULL_NAMES.items() if name != HELD_OUT_NAME}


def shown(result: Result[Metrics], x: Tensor) -> Tensor:
    """Centred images (n, d) at the root mean square of a photograph, plus the training mean, clipped to [0, 1]."""
    scaled = normalize(x, dim=1) * PIXEL_STD * x.shape[1] ** 0.5
    return (scaled + result.array("mean")).clamp(0, 1)


def matched(result: Result[Metrics], key: str, x_hat: str = "x_hat") -> tuple[Tensor, Tensor, Tensor]:
    """(images (n, d), candidate of each (n, d), NCC (n,)), best first; key: "x_train" or "x_held_out"."""
    images = result.array(key)
    candidates = padded(result.array(x_hat), len(images))
    match = one_to_one(images, candidates)
    order = match.score.argsort(descending=True)
    return images[order], candidates[match.index[order]], match.score[order]


def mosaic(rows: list[tuple[Tensor, str]], columns: int, gap: int = 2) -> np.ndarray:
    """Pairs of rows of flat colour images as one picture (H, W, 3): (images (n, d), frame), line by line."""
    n, inner = len(rows[0][0]), as_pixels(rows[0][0][0]).shape[0]
    side = inner + 2 * gap
    lines = -(-n // columns)
    canvas = np.ones((lines * (len(rows) * side + 2 * gap), columns * side, 3))
    for k in range(n):
        line, column = divmod(k, columns)
        for r, (images, frame) in enumerate(rows):
            top, left = line * (len(rows) * side + 2 * gap) + r * side, column * side
            colour = tuple(int(FRAMES[frame][i : i + 2], 16) / 255 for i in (1, 3, 5))
            canvas[top : top + side, left : left + side] = colour
            pixels = as_pixels(images[k])
            canvas[top + gap : top + gap + inner, left + gap : left + gap + inner] = pixels
    return canvas


def plot_all(result: Result[Metrics], columns: int = 20) -> Figure:
    """Every training image (grey) under the candidate assigned to it (black), best first."""
    train, found, _ = matched(result, "x_train")
    picture = mosaic(
        [(shown(result, found), "black"), ((train + result.array("mean")).clamp(0, 1), "grey")],
        min(columns, len(train)),
    )
    return _picture(picture)


def plot_nulls(result: Result[Metrics], n: int = 20) -> Figure:
    """The n best of what costs nothing (black) over training images (grey), and of the attack's own candidates over
    held-out images."""
    train, score = result.array("x_train"), result.array("x_null_ncc")
    order = score.argsort(descending=True)[:n]
    held_out, found, _ = matched(result, "x_held_out")
    mean = result.array("mean")
    first = [(shown(result, result.array("x_null")[order]), "black"), ((train[order] + mean).clamp(0, 1), "grey")]
    second = [(shown(result, found[:n]), "black"), ((held_out[:n] + mean).clamp(0, 1), "grey")]
    return _picture(np.concatenate([mosaic(first, n), mosaic(second, n)]))


@photographs
def _picture(canvas: np.ndarray) -> Figure:
    height, width = canvas.shape[:2]
    figure, ax = plt.subplots(figsize=(PAGE, PAGE * height / width))
    ax.imshow(canvas, interpolation="nearest")
    ax.axis("off")
    figure.subplots_adjust(0, 0, 1, 1)
    return figure


def plot_front(result: Result[Metrics], n: int = 10) -> Figure:
    """Every tenth image from the best to the worst: candidate, training image, and the best that costs nothing."""
    train, found, score = matched(result, "x_train")
    picked = torch.linspace(0, len(train) - 1, n).round().long()
    free = result.array("x_null_ncc").argsort(descending=True)[:n]
    rows = [
        ("read out of\nthe weights", shown(result, found[picked]), "black"),
        ("training\nimage", (train[picked] + result.array("mean")).clamp(0, 1), "grey"),
        ("best without\nan attack", shown(result, result.array("x_null")[free]), "black"),
    ]
    titles = [[f"{value:.2f}" for value in score[picked]], [], [f"{v:.2f}" for v in result.array("x_null_ncc")[free]]]
    return image_rows(rows, titles)


def plot_smears(result: Result[Metrics]) -> Figure:
    """The rows of W1 with the largest norms, as pictures around grey."""
    rows = result.array("smears")
    images = 0.5 + 0.5 * rows / rows.abs().amax(1, keepdim=True)
    return image_rows([("rows of W1", images, "grey")])


@chart
def plot_scores(result: Result[Metrics]) -> Figure:
    """Sorted one-to-one NCC: training images, held-out images, and the best that costs nothing."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    curves = {
        "training images": (matched(result, "x_train")[2], TRAIN),
        "held-out images\n(null)": (matched(result, "x_held_out")[2], HELD_OUT),
        "training images,\nwithout an attack\n(null)": (result.array("null_envelope"), FREE),
    }
    for score, colour in curves.values():
        ax.plot(range(1, len(score) + 1), score, color=colour)
    ax.axhline(0.7, color=REFERENCE, lw=0.8, ls=":")
    ax.set(xlabel="image, best first", ylabel="NCC with its candidate", ylim=(0, 1))
    end_labels(ax, [(float(score[-1]), label, colour) for label, (score, colour) in curves.items()])
    return figure


@chart
def plot_reliability(result: Result[Metrics]) -> Figure:
    """Left: what the adversary says against what is so.  Right: true found against false accepted."""
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.4))
    _reliability(axes[0], result.metrics.certainty.reliability)
    p, true = result.array("judged_probability"), result.array("judged_true")
    order = p.argsort(descending=True, stable=True)
    hits, misses = true[order].cumsum(0), (~true[order]).cumsum(0)
    axes[1].step(misses / max(int(misses[-1]), 1), hits / max(int(hits[-1]), 1), where="post", color=TRAIN)
    chance = np.geomspace(0.005, 1, 50)
    axes[1].plot(chance, chance, color=REFERENCE, lw=0.8, ls=":")
    note(axes[1], "chance", (0.3, 0.3), (6, -7), REFERENCE)
    axes[1].set(
        xscale="log",
        xlim=(0.005, 1),
        ylim=(0, 1.02),
        xlabel="share of the false accepted",
        ylabel="share of the true found",
    )
    return figure


def _reliability(ax: Axes, rows: list[tuple[float, float, int]]) -> None:
    said, so, number = np.array(rows).T
    ax.plot([0, 1], [0, 1], color=REFERENCE, lw=0.8, ls=":")
    ax.plot(said, so, "o-", color=TRAIN)
    for x, y, k in zip(said, so, number, strict=True):
        ax.annotate(f"{k:.0f}", (x, y), (7, -3) if y > 0.05 else (5, 6), textcoords="offset points")
    ax.set(xlabel="probability the adversary gives", ylabel="share that is true", xlim=(0, 1.05), ylim=(0, 1.05))


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "all": plot_all,
    "smears": plot_smears,
    "reliability": plot_reliability,
}
