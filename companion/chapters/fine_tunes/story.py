"""The appendix's sentences on fine-tunes; their rules were written before the runs they judge."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from companion.chapters.claims import claim
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
from companion.chapters.pictures import BASELINE, OTHERS, RECOVERED, SERIES, chart, dot_rows
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

    def over(choose: Callable[[Any], float], attack: str) -> float:
        return choose(identified(cell, attack) for cell in cells)

    ours, loss = over(min, ATTACK), over(max, LOSS)
    public = over(max, PUBLIC_BODY)
    running, again = ([identified(c, FILTER + suffix) for c in cells] for suffix in ("", AGAIN))
    gain = min(new - old for new, old in zip(again, running, strict=True))
    by_recipe = {
        recipe: [identified(cell, ATTACK) for cell in found]
        for recipe in (SGD, ADAMW)
        if (found := metrics.of(recipe))
    }
    sets = {
        recipe: {"least": min(shares), "most": max(shares)} for recipe, shares in by_recipe.items()
    }
    return [
        claim(
            "fine-tune-members",
            {
                "sets": sets,
                "loss": loss,
                "alarms": fmean(c.attacks[ATTACK].false_alarms for c in cells),
            },
            verdict="finding" if ours > MOST and ours > loss else "not reproduced",
            value=ours,
            null_value=loss,
            margin=ours - max(MOST, loss),
        ),
        claim(
            "fine-tune-public-features",
            {"public": public, "least": ours},
            verdict="finding" if ours > MOST and public < ours / 2 else "not reproduced",
            value=public,
            null_value=ours,
            margin=min(ours - MOST, ours / 2 - public),
        ),
        claim(
            "fine-tune-statistics",
            {"running": running, "again": again},
            verdict="finding" if gain > MORE else "not reproduced",
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
        "public features": (PUBLIC_BODY, {"marker": "s", "color": OTHERS}),
        "loss": (LOSS, {"marker": "x", "color": BASELINE}),
        "matched filter": (FILTER, {"marker": "o", "color": SERIES[3]}),
        "label filter, statistics re-estimated": (ATTACK, {"marker": "D", "color": RECOVERED}),
    }
    return dot_rows(
        [label(cell) for cell in cells],
        {
            name: ([identified(cell, attack) for cell in cells], style)
            for name, (attack, style) in marks.items()
        },
        [cell.test_accuracy for cell in cells],
    )


FIGURES = {"recipes": plot_recipes}
