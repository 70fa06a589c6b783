"""The appendix's sentences on fine-tunes; their rules were written before the runs they judge."""

from __future__ import annotations

from statistics import fmean

from matplotlib.figure import Figure

from companion.chapters.fine_tunes.experiment import (
    ADAMW,
    AGAIN,
    ATTACK,
    FILTER,
    LOSS,
    PUBLIC_BODY,
    SGD,
    Metrics,
    Sizes,
)
from companion.chapters.members import attack_rows, finding
from companion.chapters.pictures import BASELINE, RECOVERED, SERIES, chart
from companion.store.record import Record
from companion.store.results import Claim, Result

MOST = 0.5
MORE = 0.1  # members, as a share, that make a difference


def identified(cell: Record, attack: str) -> float:
    """Share of the members at 1 % false alarms."""
    return cell.attacks[attack].tpr_at_1pct


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Of the two recipes, on all their sets of images."""
    cells = metrics.of(SGD, ADAMW)
    attack, loss, public, running, again = (
        [identified(cell, name) for cell in cells]
        for name in (ATTACK, LOSS, PUBLIC_BODY, FILTER, FILTER + AGAIN)
    )
    ours = min(attack)
    best = max(public)
    gain = min(new - old for new, old in zip(again, running, strict=True))
    by_recipe = {
        name: [identified(cell, ATTACK) for cell in metrics.of(name)]
        for name in (SGD, ADAMW)
        if metrics.of(name)
    }
    return [
        finding(
            "fine-tune-members",
            {
                "sets": {k: {"least": min(v), "most": max(v)} for k, v in by_recipe.items()},
                "loss": max(loss),
                "alarms": fmean(c.attacks[ATTACK].false_alarms for c in cells),
            },
            strict=True,
            value=ours,
            null_value=max(loss),
            margin=ours - max(MOST, *loss),
        ),
        finding(
            "fine-tune-public-features",
            {"public": best, "least": ours},
            strict=True,
            value=best,
            null_value=ours,
            margin=min(ours - MOST, ours / 2 - best),
        ),
        finding(
            "fine-tune-statistics",
            {"running": running, "again": again},
            strict=True,
            value=gain,
            null_value=0.0,
            margin=gain - MORE,
        ),
    ]


def label(cell: Record) -> str:
    """A row of the figure."""
    more = ", batch norm frozen" * cell.frozen_statistics + ", flips and crops" * cell.augment
    return f"{cell.recipe}{more}, n = {cell.n}"


@chart
def plot_recipes(result: Result[Metrics]) -> Figure:
    """Members identified at 1 % false alarms, a row a network, by attack; accuracy at the right."""
    main = sorted(result.metrics.of(SGD, ADAMW), key=lambda cell: cell.recipe)
    cells = [*main, *(cell for cell in result.metrics.cells if cell not in main)]
    marks = {
        "public features": (PUBLIC_BODY, "s", BASELINE),
        "loss": (LOSS, "x", BASELINE),
        "matched filter": (FILTER, "o", SERIES[3]),
        "label filter, statistics re-estimated": (ATTACK, "D", RECOVERED),
    }
    return attack_rows(cells, label, marks, identified, lambda cell: cell.test_accuracy)


FIGURES = {"recipes": plot_recipes}
