"""The chapter's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.chapters.candidates.experiment_members import MemberSizes
from companion.chapters.candidates.experiment_members import Metrics as MemberMetrics
from companion.chapters.candidates.names import FREE, KKT, SHADOWED
from companion.chapters.candidates.story_sets import NO
from companion.chapters.pictures import FREE as FREE_COLOUR
from companion.chapters.pictures import PAGE, SERIES, TRAIN, chart
from companion.store.record import Record
from companion.store.results import Claim, Result


# ------------------------------------------------------------------------------------------------------ membership
def claims(metrics: MemberMetrics, _: MemberSizes) -> list[Claim]:
    """Multipliers against shadow networks."""
    return [against_shadows(metrics)]


def many(each: Record, name: str) -> Record:
    """Of a score, in the larger pool."""
    return each.scores[name].many


def best_of(each: Record, names: tuple[str, ...]) -> tuple[str, Record]:
    """The score among these with the largest TPR at 1 % FPR."""
    name = max(names, key=lambda one: many(each, one).tpr_1)
    return name, many(each, name)


def against_shadows(metrics: MemberMetrics) -> Claim:
    """Intervals apart, recipe by recipe.  A finding of ours: theirs is of a ResNet-18, at rates that our pools cannot
    measure."""
    tried = metrics.cells
    pairs = [(each.recipe, many(each, KKT[0]), *best_of(each, SHADOWED)) for each in tried]
    won = [ours.tpr_1_interval[0] > theirs.tpr_1_interval[1] for _, ours, _, theirs in pairs]
    return Claim(
        "membership-shadows",
        "",
        "Of small fully connected networks, KKT multipliers name the training images in a pool better than attacks "
        "with shadow networks do.",
        "",
        f"TPR at 1 % FPR, n = {tried[0].n_train}: "
        + ", ".join(f"{recipe} {ours.tpr_1:.2f} (AUC {ours.auc:.2f})" for recipe, ours, _, _ in pairs),
        "the best with shadow networks trained alike: "
        + ", ".join(f"{name} {theirs.tpr_1:.2f} (AUC {theirs.auc:.2f})" for _, _, name, theirs in pairs),
        "finding" if all(won) else "partly" if any(won) else NO,
        value=min(ours.tpr_1 for _, ours, _, _ in pairs),
        null_value=max(theirs.tpr_1 for _, _, _, theirs in pairs),
    )


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


def _interval(ax: Axes, y: int, cell: Record, name: str) -> None:
    rates = cell.scores[name].many
    colour = TRAIN if name in KKT else SERIES[1] if name in SHADOWED else FREE_COLOUR
    ax.plot(rates.tpr_1_interval, [y, y], color=colour, lw=1.5)
    known = name.endswith("known")
    ax.plot(rates.tpr_1, y, "o", ms=6, color=colour, mfc="white" if known else colour, mew=1.5)


FIGURES: dict[str, Callable[[Result[MemberMetrics]], Figure]] = {"scores": plot_scores}
