"""The chapter's sentences; the rules were written before the runs that they judge."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.heads.experiment import (
    RECIPES,
    SGD,
    Metrics,
    Sizes,
    best_null,
)
from companion.chapters.pictures import (
    BASELINE,
    OTHERS,
    PAGE,
    RECOVERED,
    SERIES,
    Colour,
    chart,
    dot_rows,
    image_rows,
    levels,
    photographs,
)
from companion.store.record import Record
from companion.store.results import Claim, Result
from recon.scoring.nulls import clears

PRECISE = 0.95  # share of the certified features that must be true
MOST = 0.5


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What the chapter says; of the first cell, and of what else was run."""
    habits = [cell for cell in metrics.cells if RECIPES[cell.recipe].habit]
    sentences = [_unmixed(metrics), _certified(metrics)]
    return sentences + ([_habits(habits)] if habits else [])


def _unmixed(metrics: Metrics) -> Claim:
    """Of the most images that are at most two thirds of the hidden units."""
    width = metrics.cells[0].width
    same = [cell for cell in metrics.cells if (cell.recipe, cell.width) == (SGD, width)]
    cell = max([c for c in same if 3 * c.n_train <= 2 * width], key=lambda c: c.n_train)
    ours, null = cell.matches.cos_09, best_null(cell).cos_09
    return claim(
        "heads-unmix",
        {**cell, "ica": cell.fast_ica or cell.null, "best_null": null},
        verdict=(
            "finding" if ours > MOST * cell.n_train and clears(ours, null) else "not reproduced"
        ),
        value=ours,
        null_value=null,
        margin=ours - max(MOST * cell.n_train, null),
    )


def _certified(metrics: Metrics) -> Claim:
    """By plain SGD, where its start is gone or known exactly: there the span is exact, which the
    proof asks for.
    """
    exact = [
        cell
        for cell in metrics.cells
        if cell.recipe == SGD or (cell.start == "known" and not RECIPES[cell.recipe].preconditioned)
    ]
    sums = {
        name: sum(cell[name] for cell in exact)
        for name in ("certified", "certified_true", "n_train")
    }
    certified, true, n = sums.values()
    share = true / max(certified, 1)
    return claim(
        "heads-certified",
        {**sums, "heads": len(exact)},
        verdict="finding" if share >= PRECISE and true > MOST * n else "not reproduced",
        value=share,
        margin=min(share - PRECISE, true / n - MOST),
    )


def _habits(cells: list[Record]) -> Claim:
    value = min(max(c.matches.cos_08 / c.n_train, c.filter.tpr_at_1pct) for c in cells)
    return claim(
        "heads-habits",
        {"cells": cells},
        verdict="finding" if value > MOST else "not reproduced",
        value=value,
        margin=value - MOST,
    )


#: label and frame of what is drawn of some training images
FRONT = {
    "x_train": ("training\nimage", "training"),
    "decoded": ("decoded from\nthe weights", "recovered"),
    "ceiling": ("decoded from\nits own feature", "training"),
    "nearest_public": ("public image\nnearest to it", "none"),
}


def selected(_: Metrics, arrays: Tensors, n: int = 8) -> Tensors:
    """Images whose features were found, from the best to the worst in even steps, and cosines."""
    matched = arrays["matched"]
    order = matched.argsort(descending=True)
    picked = order[torch.linspace(0, len(matched) - 1, n).round().long()]
    return {name: levels(arrays[name][picked]) for name in FRONT} | {"cosine": matched[picked]}


@photographs
def plot_front(result: Result[Metrics]) -> Figure:
    """Training images; what a ridge decoder makes of the features that were found, and of the true
    ones; the public image whose feature is nearest to the found one."""
    rows = [(label, result.figure(name), frame) for name, (label, frame) in FRONT.items()]
    return image_rows(rows, [[], [f"{value:.2f}" for value in result.figure("cosine")], [], []])


@chart
def plot_images(result: Result[Metrics]) -> Figure:
    """Share of the training features recovered, by their number, with FastICA's and the best
    null.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.2))
    cells = result.metrics.by_images()
    n = np.array([cell.n_train for cell in cells])
    curves: dict[str, tuple[list[int], Colour]] = {
        "linear programmes": ([c.matches.cos_09 for c in cells], RECOVERED),
        "of them certified": ([c.certified_true for c in cells], SERIES[3]),
        "FastICA": ([(c.fast_ica or c.null).cos_09 for c in cells], OTHERS),
        "best null": ([best_null(c).cos_09 for c in cells], BASELINE),
    }
    for name, (counts, colour) in curves.items():
        ax.plot(n, counts / n, "o-", color=colour, label=name)
    ax.set(xlabel="training images", ylabel="share above cosine 0.9", ylim=(-0.02, 1.05))
    ax.legend(loc=(0.38, 0.35))
    return figure


@chart
def plot_recipes(result: Result[Metrics]) -> Figure:
    """Of one head a recipe: features recovered, members identified at 1 % false alarms by the
    attack and by confidence, and the accuracy on other images.
    """
    same = ("backbone", "n_train", "classes", "width")
    first = result.metrics.cells[0].only(*same)
    cells = [cell for cell in result.metrics.cells if cell.only(*same) == first]
    identified = [max(c.span.tpr_at_1pct, c.filter.tpr_at_1pct) for c in cells]
    marks: dict[str, tuple[list[float], dict[str, Any]]] = {
        "members, by confidence (null)": (
            [c.margin.tpr_at_1pct for c in cells],
            {"marker": "x", "color": BASELINE},
        ),
        "features": (
            [c.matches.cos_08 / c.n_train for c in cells],
            {"marker": "s", "color": RECOVERED},
        ),
        "members": (identified, {"marker": "D", "color": SERIES[3]}),
    }
    names = [c.recipe + ", start known" * (c.start == "known") for c in cells]
    return dot_rows(names, marks, [c.test_accuracy for c in cells])


FIGURES = {"front": plot_front, "images": plot_images, "recipes": plot_recipes}
