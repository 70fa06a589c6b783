"""The chapter's sentences; the rules were written before the runs that they judge."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.heads.experiment import SGD, Metrics, Sizes, best_null
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
    levels,
    photographs,
)
from companion.store.record import Record
from companion.store.results import Claim, Result
from recon.scoring.nulls import clears

PRECISE, MOST = 0.95, 0.5


#: what people do to a head without thinking of privacy
HABITS = (
    *("dropout 0.5", "batch norm", "standardised features", "flips and shifts", "early stopping"),
    *("8-bit weights", "half of the weights pruned", "average of five checkpoints"),
)


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What the chapter says; of the first cell, and of what else was run."""
    default = metrics.at(recipe="AdamW, default", n_train=sizes.n_train)
    width = metrics.cells[0].width
    same = [
        c
        for c in metrics.cells
        if (c.recipe, c.width) == (SGD, width) and 3 * c.n_train <= 2 * width
    ]
    found = [_unmixed(max(same, key=lambda c: c.n_train)), _certified(metrics)]
    found += [_members(default)] if default else []
    habits = [cell for cell in metrics.cells if cell.recipe in HABITS]
    return found + ([_habits(habits)] if habits else [])


def _unmixed(first: Record) -> Claim:
    """Of the most images that are at most two thirds of the hidden units."""
    ours, null, ica = first.matches.cos_09, best_null(first).cos_09, first.fast_ica or first.null
    return claim(
        "heads-unmix",
        ours=(
            f"{ours} of {first.n_train} above cosine 0.9, {first.matches.cos_08} above 0.8;"
            f" FastICA: {ica.cos_09} and {ica.cos_08}"
        ),
        null=(
            f"above 0.9: {null} (best of held-out features, mixtures of the span, public features"
            " and their projections)"
        ),
        verdict=(
            "finding" if ours > MOST * first.n_train and clears(ours, null) else "not reproduced"
        ),
        value=ours,
        null_value=null,
        margin=ours - max(MOST * first.n_train, null),
    )


def _certified(metrics: Metrics) -> Claim:
    """By plain SGD, where its start is gone or known exactly: there the span is exact, which the
    proof asks for.
    """
    exact = [
        c
        for c in metrics.cells
        if c.recipe == SGD or (c.recipe.startswith("SGD") and c.start == "known")
    ]
    said, true = sum(c.certified for c in exact), sum(c.certified_true for c in exact)
    asked = sum(c.n_train for c in exact)
    share = true / max(said, 1)
    holds = share >= PRECISE and true > MOST * asked
    return claim(
        "heads-certified",
        ours=(
            f"{true} of {said} certified features are true, in {len(exact)} heads with {asked}"
            " training images"
        ),
        null="by chance: the zeros of an extreme vector of the span",
        verdict="finding" if holds else "not reproduced",
        value=share,
        margin=min(share - PRECISE, true / asked - MOST),
    )


def _members(cell: Record) -> Claim:
    ours, null = cell.filter.tpr_at_1pct, cell.margin.tpr_at_1pct
    return claim(
        "heads-members",
        ours=(
            f"{ours:.0%} of the members at 1 % false alarms by a matched filter,"
            f" {cell.filter.tpr_at_01pct:.0%} at 0.1 %, AUC {cell.filter.auc:.3f};"
            f" {cell.matches.cos_08} features above cosine 0.8"
        ),
        null=f"the head's own confidence: {null:.0%}, AUC {cell.margin.auc:.3f}",
        verdict="finding" if ours > MOST and ours > 2 * null else "not reproduced",
        value=ours,
        null_value=null,
        margin=ours - max(MOST, 2 * null),
    )


def _habits(cells: list[Record]) -> Claim:
    worst = min(cells, key=lambda c: max(c.matches.cos_08 / c.n_train, c.filter.tpr_at_1pct))
    value = max(worst.matches.cos_08 / worst.n_train, worst.filter.tpr_at_1pct)
    return claim(
        "heads-habits",
        ours="; ".join(
            f"{c.recipe}: {c.matches.cos_08} of {c.n_train}, {c.filter.tpr_at_1pct:.0%}"
            for c in cells
        ),
        null=(
            "features above cosine 0.8, members at 1 % false alarms; half is asked for of one of"
            " them"
        ),
        verdict="finding" if value > MOST else "not reproduced",
        value=value,
        margin=value - MOST,
    )


#: label and frame of what is drawn of some training images
FRONT = {
    "x_train": ("training\nimage", "grey"),
    "decoded": ("decoded from\nthe weights", "black"),
    "ceiling": ("decoded from\nits own feature", "grey"),
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
    """Left: share of the training features found, by their number, with FastICA's and the best
    null. Right: members of AdamW's heads told at 1 % false alarms, by images a class, and the slope
    of shadow models.
    """
    first = result.metrics.cells[0]
    cells, told = result.metrics.by_images(first.recipe, first.start), result.metrics.by_images()
    n = [c.n_train for c in cells]
    figure, (ax, beside) = plt.subplots(
        1, 2, figsize=(PAGE, 3.2), width_ratios=(3, 2), layout="constrained"
    )
    curves = {
        "linear programmes": ([c.matches.cos_09 / c.n_train for c in cells], TRAIN),
        "of them certified": ([c.certified_true / c.n_train for c in cells], SERIES[3]),
        "FastICA": ([(c.fast_ica or c.null).cos_09 / c.n_train for c in cells], HELD_OUT),
        "best null": ([best_null(c).cos_09 / c.n_train for c in cells], FREE),
    }
    for values, colour in curves.values():
        ax.plot(n, values, "o-", color=colour)
    ax.set(xlabel="training images", ylabel="share above cosine 0.9", ylim=(-0.02, 1.05))
    end_labels(ax, [(values[-1], name, colour) for name, (values, colour) in curves.items()])
    each = [c.n_train / c.classes for c in told]
    beside.set(
        xscale="log",
        yscale="log",
        xlabel="images a class",
        ylabel="share of members told",
        ylim=(0.02, 1.2),
    )
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
def plot_recipes(result: Result[Metrics]) -> Figure:
    """Of one head a recipe: features found, members named at 1 % false alarms by the attack and by
    confidence, and the accuracy on other images.
    """
    first = result.metrics.cells[0]
    alike = (first.backbone, first.n_train, first.classes)
    cells = [
        c
        for c in result.metrics.cells
        if (c.backbone, c.n_train, c.classes) == alike
        and (c.width == first.width or c.recipe == "linear head")
        and (
            c.start == "unknown"
            or (c.start == "known" and c.recipe in ("SGD, no decay", "AdamW, default"))
        )
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
    ax.set(
        xlim=(-3, 118), ylim=(0.3, len(cells) + 1.6), xlabel="found, %", xticks=range(0, 101, 20)
    )
    ax.set_yticks(
        list(y),
        [f"{c.recipe}" + ("" if c.start == "unknown" else f", start {c.start}") for c in cells],
    )
    ax.hlines(list(y), -3, 104, color="#cccccc", lw=0.5, zorder=0)  # up to the accuracies
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.3, 1.0), ncols=3, columnspacing=1.0, handletextpad=0.3
    )
    return figure


FIGURES = {"front": plot_front, "images": plot_images, "recipes": plot_recipes}
