"""What is said of members; the rules were written before the runs that they judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from statistics import fmean
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.chapters.heads.experiment import ADAMW, SGD
from companion.chapters.heads.experiment_members import (
    CONFIDENCE,
    ENERGY,
    FEW,
    FILTER,
    FOREIGN,
    LOSS,
    PRIVATE,
    SHADOW,
    SPAN,
    UNLABELLED,
    Metrics,
    Sizes,
)
from companion.chapters.members import attack_rows, finding
from companion.chapters.pictures import BASELINE, PAGE, RECOVERED, chart
from companion.store.record import Record
from companion.store.results import Claim, Result

MOST = 0.5
FEWER = 2 / 3  # of the members
SIMPLE = (CONFIDENCE, LOSS, ENERGY)
OURS = (FILTER, UNLABELLED, SPAN)
#: attacks of others that the figure has
DRAWN = ("LiRA, online", "RMIA", "IHA", "loss quantile", "gradient alignment", CONFIDENCE)
COLOURS = RECOVERED, BASELINE, BASELINE
POORER = (FEW, FOREIGN)  # the filter, with less than it needs
HIDDEN = 0.1  # a larger share of the members, over all sets, is not hidden
COST = 0.75  # of its accuracy or less is left to a head that pays for privacy
ALARMS = 0.012


def shares(cell: Record, name: str, at: str = "at_1pct") -> list[float]:
    """Of each set's members, those that an attack identifies."""
    return np.divide(cell.attacks[name][at], cell.attacks[name].of).tolist()


def pooled(cell: Record, *names: str) -> float:
    """The same over all sets, of the best of these attacks."""
    rows = [cell.attacks[name] for name in names]
    return max(sum(row.at_1pct) / sum(row.of) for row in rows)


def headline(metrics: Metrics) -> Record:
    """The cell of AdamW and ten classes with most shadows."""
    wanted = {"recipe": ADAMW, "classes": 10, "balanced": False}
    cells = [cell for cell in metrics.cells if cell.only(*wanted) == wanted]
    return max(cells, key=lambda cell: cell.shadows)


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """Those whose heads were trained."""
    private = [cell for cell in metrics.cells if cell.recipe in PRIVATE]
    table = [c for c in metrics.cells if c.classes == 10 and not c.balanced and c not in private]
    default = headline(metrics)
    two = metrics.at(recipe=ADAMW, classes=2, n_train=default.n_train)
    sentences = [_members(default), _public(default), _lira(default, metrics), _alarms(metrics)]
    if len(table) > 1:
        sentences.append(_best(table))
    if any(cell.recipe == SGD for cell in table) and private:
        sentences.append(_private(private, table))
    return sentences + ([_two_classes(default, two)] if two else [])


def _members(cell: Record) -> Claim:
    ours = shares(cell, FILTER)
    simple = {name: max(shares(cell, name)) for name in SIMPLE}
    null = max(simple.values())
    return finding(
        "heads-members",
        {"shares": ours, "rare": shares(cell, FILTER, "at_01pct"), "simple": simple},
        strict=True,
        value=min(ours),
        null_value=null,
        margin=min(ours) - max(MOST, 2 * null),
    )


def _public(cell: Record) -> Claim:
    few = shares(cell, FEW)
    foreign = shares(cell, FOREIGN)
    full = shares(cell, FILTER)
    ours = max(few + foreign)
    null = min(full)
    return finding(
        "heads-public",
        {"few": few, "foreign": foreign, "all": full},
        strict=True,
        value=ours,
        null_value=null,
        margin=min(FEWER * null - ours, null - MOST),
    )


def _lira(default: Record, metrics: Metrics) -> Claim:
    """By every set, and where every image is in half of the heads."""
    balanced = [cell for cell in metrics.cells if cell.balanced]
    ours = shares(default, FILTER)
    theirs = [shares(default, name) for name in SHADOW]
    tables = [[shares(cell, name) for name in (FILTER, *SHADOW)] for cell in (default, *balanced)]
    values = {
        "ours": ours,
        "theirs": {name: pooled(default, name) for name in SHADOW},
        "shadows": default.shadows,
        "balanced": [{"ours": pooled(c, FILTER), "theirs": pooled(c, *SHADOW)} for c in balanced],
    }
    return finding(
        "heads-against-lira",
        values,
        strict=True,
        value=min(ours),
        null_value=max(map(max, theirs)),
        margin=min(np.subtract(of[0], np.max(of[1:], axis=0)).min() for of in tables).item(),
    )


def best_of(cell: Record, names: Iterable[str]) -> dict[str, Any]:
    """Of these attacks the one that identifies most members over all sets, and their share."""
    best = max(names, key=partial(pooled, cell))
    return {**cell.only("recipe", "n_train"), "best": best, "share": pooled(cell, best)}


def _best(table: list[Record]) -> Claim:
    """Over all sets; attacks of others have all that they ask for."""
    rows = []
    for cell in table:
        others = [name for name in cell.attacks if name not in (*OURS, *POORER, ENERGY)]
        rows.append({**best_of(cell, others), "ours": pooled(cell, *OURS)})
    margin = min(row["ours"] - row["share"] for row in rows)
    return finding("heads-best-attack", {"rows": rows}, value=margin, margin=margin)


def _private(private: list[Record], table: list[Record]) -> Claim:
    """Of accuracies the mean over sets; the same number of images by plain SGD beside it."""
    rows = []
    for cell in private:
        for plain in [c for c in table if (c.recipe, c.n_train) == (SGD, cell.n_train)]:
            accuracy = fmean(cell.accuracy)
            before = fmean(plain.accuracy)
            rows.append({**best_of(cell, cell.attacks), "accuracy": accuracy, "before": before})
    margins = (min(HIDDEN - row["share"], COST * row["before"] - row["accuracy"]) for row in rows)
    return finding(
        "heads-dp",
        {"rows": rows},
        value=max(row["share"] for row in rows),
        null_value=HIDDEN,
        margin=min(margins),
    )


def _two_classes(ten: Record, two: Record) -> Claim:
    ours = shares(two, FILTER)
    before = shares(ten, FILTER)
    return finding(
        "heads-two-classes",
        {"two": ours, "ten": before, "others": pooled(two, *SHADOW)},
        value=max(ours),
        null_value=min(before),
        margin=min(min(ours) - HIDDEN, FEWER * min(before) - max(ours)),
    )


def _alarms(metrics: Metrics) -> Claim:
    """Over all heads and sets; of the attack with most."""
    alarms = Counter[str]()
    fresh = Counter[str]()
    for name, row in (pair for cell in metrics.cells for pair in cell.attacks.items()):
        alarms[name] += sum(row.get("false_alarms", []))
        fresh[name] += sum(row.get("fresh", []))
    rates = {name: alarms[name] / count for name, count in fresh.items()}
    most = max(rates.values())
    return finding(
        "heads-false-alarms",
        {"rates": rates, "most": most},
        value=most,
        null_value=0.01,
        margin=ALARMS - most,
    )


@chart
def plot_attacks(result: Result[Metrics]) -> Figure:
    """Share of members identified at 1 % false alarms, a row the heads of one recipe and number of
    images, over all sets: by the matched filter and the span test, orange, and by others.
    """
    cells = [c for c in result.metrics.cells if c.classes == 10 and not c.balanced]
    marks = {
        name: (name, marker, RECOVERED if name in OURS else BASELINE)
        for name, marker in zip((*DRAWN, SPAN, FILTER), "vs^P*xoD", strict=True)
    }
    return attack_rows(
        sorted(cells, key=lambda cell: (cell.recipe, cell.n_train)),
        lambda cell: f"{cell.recipe}, n = {cell.n_train}",
        marks,
        pooled,
        lambda cell: fmean(cell.accuracy),
    )


@chart
def plot_three_bars(result: Result[Metrics]) -> Figure:
    """Members of a head of a hundred images by AdamW that are identified at 1 % false alarms: from
    the weights, by the head's own confidence, and by chance; the mean of sets, least and most.
    """
    cell = headline(result.metrics)
    bars = {
        "from the weights": shares(cell, FILTER),
        "by the head's own confidence": shares(cell, CONFIDENCE),
        "by chance": [0.01],
    }
    figure, ax = plt.subplots(figsize=(PAGE, 1.9))
    low, mean, high = 100 * np.array([[min(v), fmean(v), max(v)] for v in bars.values()]).T
    drawn = ax.barh([*bars], mean, xerr=[mean - low, high - mean], color=COLOURS, height=0.6)
    ax.bar_label(drawn, fmt="%.0f %%", padding=6)
    ax.set(
        xlim=(0, 108),
        ylim=(len(bars) - 0.5, -0.5),
        xlabel="members identified, %",
    )
    return figure


FIGURES = {"attacks": plot_attacks, "three-bars": plot_three_bars}
