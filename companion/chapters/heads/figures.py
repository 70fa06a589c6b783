"""Figures of the chapter on heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.heads.metrics import HeadCell, Metrics
from companion.chapters.pictures import (
    FREE,
    HELD_OUT,
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    chart,
    end_labels,
    image_rows,
    note,
)
from companion.store.results import Result


def plot_front(result: Result[Metrics], n: int = 8) -> Figure:
    """Training images; what a ridge decoder makes of the features that were found, and of the true ones; the public
    image whose feature is nearest to the found one."""
    matched = result.array("matched")
    picked = matched.argsort(descending=True)[torch.linspace(0, len(matched) - 1, n).round().long()]
    rows = [
        ("training\nimage", "x_train", "grey"),
        ("decoded from\nthe weights", "decoded", "black"),
        ("decoded from\nits own feature", "ceiling", "grey"),
        ("public image\nnearest to it", "nearest_public", "none"),
    ]
    titles = [[], [f"{value:.2f}" for value in matched[picked]], [], []]
    return image_rows([(label, result.array(key)[picked], frame) for label, key, frame in rows], titles)


def by_images(metrics: Metrics) -> list[HeadCell]:
    """The cells that differ in their number of images alone."""
    first = metrics.cells[0]
    alike = (first.backbone, first.width, first.classes, first.recipe, first.start)
    same = [c for c in metrics.cells if (c.backbone, c.width, c.classes, c.recipe, c.start) == alike]
    return sorted(same, key=lambda c: c.n_train)


@chart
def plot_images(result: Result[Metrics]) -> Figure:
    """Left: share of the training features found, by their number, with FastICA's and the best null.  Right: members
    of AdamW's heads told at 1 % false alarms, by images a class, and the slope of shadow models."""
    cells, told = by_images(result.metrics), result.metrics.by_examples
    n = [c.n_train for c in cells]
    figure, (ax, beside) = plt.subplots(1, 2, figsize=(PAGE, 3.2), width_ratios=(3, 2), layout="constrained")
    curves = {
        "linear programmes": ([c.matches.cos_09 / c.n_train for c in cells], TRAIN),
        "of them certified": ([c.certified_true / c.n_train for c in cells], SERIES[3]),
        "FastICA": ([(c.fast_ica or c.null).cos_09 / c.n_train for c in cells], HELD_OUT),
        "best null": ([c.best_null.cos_09 / c.n_train for c in cells], FREE),
    }
    for values, colour in curves.values():
        ax.plot(n, values, "o-", color=colour)
    ax.set(xlabel="training images", ylabel="share above cosine 0.9", ylim=(-0.02, 1.05))
    end_labels(ax, [(values[-1], name, colour) for name, (values, colour) in curves.items()])
    each = [c.n_train / c.classes for c in told]
    beside.set(xscale="log", yscale="log", xlabel="images a class", ylabel="share of members told", ylim=(0.02, 1.2))
    beside.set_xticks(each, [f"{s:g}" if s != 30 else "" for s in each])
    beside.set_yticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
    beside.minorticks_off()
    members = {
        "filter": ([c.filter.tpr_at_1pct for c in told], TRAIN),
        "span": ([c.span.tpr_at_1pct for c in told], HELD_OUT),
    }
    for values, colour in members.values():
        beside.plot(each, values, "o-", color=colour)
    beside.plot(each, [(s / each[0]) ** -0.5 for s in each], ":", color=REFERENCE)
    ends = [(values[-1], name, colour) for name, (values, colour) in members.items()]
    end_labels(beside, [*ends, ((each[-1] / each[0]) ** -0.5, "slope −½", REFERENCE)])
    return figure


@chart
def plot_zeros(result: Result[Metrics], true: float = 0.8) -> Figure:
    """Zeros of every candidate of the first cell, those near a training feature apart; what chance gives."""
    zeros, x_hat = result.array("zeros"), result.array("x_hat")
    mean, std = result.array("public_mean"), result.array("public_std")
    unit = [torch.nn.functional.normalize((x - mean) / std, dim=1) for x in (x_hat, result.array("features_train"))]
    near = (unit[0] @ unit[1].mT).amax(1) > true
    figure, ax = plt.subplots(figsize=(PAGE, 2.6))
    bins = torch.linspace(0, float(zeros.max()) + 1, 40).tolist()
    ax.hist([zeros[near].numpy(), zeros[~near].numpy()], bins=bins, stacked=True, color=[TRAIN, HELD_OUT])
    ax.axvline(result.metrics.cells[0].rank - 1, color=REFERENCE, ls=":")
    note(ax, "chance", (result.metrics.cells[0].rank - 1, 0.9), (6, 0), REFERENCE, high=True)
    for part, words, colour in ((near, "training features", TRAIN), (~near, "false", HELD_OUT)):
        if part.any():
            note(ax, words, (float(zeros[part].float().quantile(0.9)), 0.6), (8, 0), colour, high=True)
    ax.set(xlabel=f"zeros of a candidate, of {x_hat.shape[1]} numbers", ylabel="candidates")
    return figure


@chart
def plot_recipes(result: Result[Metrics]) -> Figure:
    """Of one head a recipe: features found, members named at 1 % false alarms by the attack and by confidence, and the
    accuracy on other images."""
    first = result.metrics.cells[0]
    alike = (first.backbone, first.n_train, first.classes)
    cells = [
        c
        for c in result.metrics.cells
        if (c.backbone, c.n_train, c.classes) == alike
        and (c.width == first.width or c.recipe == "linear head")
        and (c.start == "unknown" or (c.start == "known" and c.recipe in ("SGD, no decay", "AdamW, default")))
    ]
    figure, ax = plt.subplots(figsize=(PAGE, 0.27 * len(cells) + 1.2))
    y = range(len(cells), 0, -1)
    marks: Sequence[tuple[str, list[float], Colour, str]] = (
        ("members, by confidence (null)", [c.margin.tpr_at_1pct for c in cells], FREE, "x"),
        ("features", [c.matches.cos_08 / c.n_train for c in cells], TRAIN, "s"),
        ("members", [max(c.span.tpr_at_1pct, c.filter.tpr_at_1pct) for c in cells], SERIES[3], "D"),
    )
    for name, values, colour, mark in marks:
        ax.plot([100 * value for value in values], y, mark, color=colour, label=name, ls="none")
    for at, cell in zip(y, cells, strict=True):
        ax.text(117, at, f"{cell.test_accuracy:.0%}", va="center", ha="right", color=REFERENCE)
    ax.text(117, len(cells) + 0.9, "accuracy", ha="right", color=REFERENCE)
    ax.set(xlim=(-3, 118), ylim=(0.3, len(cells) + 1.6), xlabel="found, %", xticks=range(0, 101, 20))
    ax.set_yticks(list(y), [f"{c.recipe}" + ("" if c.start == "unknown" else f", start {c.start}") for c in cells])
    ax.hlines(list(y), -3, 104, color="#cccccc", lw=0.5, zorder=0)  # up to the accuracies
    ax.legend(loc="lower center", bbox_to_anchor=(0.3, 1.0), ncols=3, columnspacing=1.0, handletextpad=0.3)
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "front": plot_front,
    "images": plot_images,
    "zeros": plot_zeros,
    "recipes": plot_recipes,
}
