"""What is said of members; the rules were written before the runs that they judge."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.claims import claim
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
from companion.chapters.pictures import BASELINE, PAGE, REFERENCE, SERIES, chart, end_labels, note
from companion.store.record import Record
from companion.store.results import Claim, Result

MOST = 0.5
FEWER = 2 / 3  # of the members
SIMPLE = (CONFIDENCE, LOSS, ENERGY)
OURS = (FILTER, UNLABELLED, SPAN)
#: attacks of others that the figure has
DRAWN = ("LiRA, online", "RMIA", "IHA", "loss quantile", "gradient alignment", CONFIDENCE)
POORER = (FEW, FOREIGN)  # the filter, with less than it needs
HIDDEN = 0.1  # a larger share of the members, over all sets, is not hidden
COST = 0.75  # of its accuracy or less is left to a head that pays for privacy
ALARMS = 0.012


def shares(cell: Record, name: str, at: str = "at_1pct") -> list[float]:
    """Of each set's members, those that an attack identifies."""
    row = cell.attacks[name]
    return [count / of for count, of in zip(row[at], row.of, strict=True)]


def pooled(cell: Record, names: tuple[str, ...]) -> float:
    """The same over all sets, of the best of these attacks."""
    return max(sum(cell.attacks[name].at_1pct) / sum(cell.attacks[name].of) for name in names)


def headline(metrics: Metrics) -> Record:
    """The cell of AdamW and ten classes with most shadows."""
    cells = [c for c in metrics.cells if (c.recipe, c.classes, c.balanced) == (ADAMW, 10, False)]
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
    ours = min(shares(cell, FILTER))
    simple = {name: max(shares(cell, name)) for name in SIMPLE}
    null = max(simple.values())
    return claim(
        "heads-members",
        {
            "shares": shares(cell, FILTER),
            "rare": shares(cell, FILTER, "at_01pct"),
            "simple": simple,
        },
        verdict="finding" if ours > MOST and ours > 2 * null else "not reproduced",
        value=ours,
        null_value=null,
        margin=ours - max(MOST, 2 * null),
    )


def _public(cell: Record) -> Claim:
    ours = max(max(shares(cell, name)) for name in POORER)
    null = min(shares(cell, FILTER))
    return claim(
        "heads-public",
        {"few": shares(cell, FEW), "foreign": shares(cell, FOREIGN), "all": shares(cell, FILTER)},
        verdict="finding" if ours < FEWER * null and null > MOST else "not reproduced",
        value=ours,
        null_value=null,
        margin=min(FEWER * null - ours, null - MOST),
    )


def _lira(default: Record, metrics: Metrics) -> Claim:
    """By every set, and where every image is in half of the heads."""
    cells = [default, *(cell for cell in metrics.cells if cell.balanced)]
    margins = [
        ours - max(theirs)
        for cell in cells
        for ours, *theirs in zip(*(shares(cell, name) for name in (FILTER, *SHADOW)), strict=True)
    ]
    return claim(
        "heads-against-lira",
        {
            "ours": shares(default, FILTER),
            "theirs": {name: pooled(default, (name,)) for name in SHADOW},
            "shadows": default.shadows,
            "balanced": [
                {"ours": pooled(cell, (FILTER,)), "theirs": pooled(cell, SHADOW)}
                for cell in cells[1:]
            ],
        },
        verdict="finding" if min(margins) > 0 else "not reproduced",
        value=min(shares(default, FILTER)),
        null_value=max(max(shares(default, name)) for name in SHADOW),
        margin=min(margins),
    )


def _best(table: list[Record]) -> Claim:
    """Over all sets; attacks of others have all that they ask for."""
    rows = []
    for cell in table:
        best = best_other(cell)
        ours, theirs = pooled(cell, OURS), pooled(cell, (best,))
        rows.append(
            {**cell.only("recipe", "n_train"), "ours": ours, "theirs": theirs, "best": best}
        )
    margin = min(row["ours"] - row["theirs"] for row in rows)
    return claim(
        "heads-best-attack",
        {"rows": rows},
        verdict="finding" if margin >= 0 else "not reproduced",
        value=margin,
        margin=margin,
    )


def _private(private: list[Record], table: list[Record]) -> Claim:
    """Of accuracies the mean over sets; the same number of images by plain SGD beside it."""
    rows = []
    for cell in private:
        plain = next((c for c in table if (c.recipe, c.n_train) == (SGD, cell.n_train)), None)
        if plain:
            best = max(cell.attacks, key=lambda name: pooled(cell, (name,)))
            accuracy, before = (sum(c.accuracy) / len(c.accuracy) for c in (cell, plain))
            rows.append(
                {
                    **cell.only("recipe", "n_train"),
                    "share": pooled(cell, (best,)),
                    "best": best,
                    "accuracy": accuracy,
                    "before": before,
                }
            )
    margin = min(min(HIDDEN - row["share"], COST * row["before"] - row["accuracy"]) for row in rows)
    return claim(
        "heads-dp",
        {"rows": rows},
        verdict="finding" if margin >= 0 else "not reproduced",
        value=max(row["share"] for row in rows),
        null_value=HIDDEN,
        margin=margin,
    )


def _two_classes(ten: Record, two: Record) -> Claim:
    ours, before = shares(two, FILTER), shares(ten, FILTER)
    margin = min(min(ours) - HIDDEN, FEWER * min(before) - max(ours))
    return claim(
        "heads-two-classes",
        {"two": ours, "ten": before, "others": pooled(two, SHADOW)},
        verdict="finding" if margin >= 0 else "not reproduced",
        value=max(ours),
        null_value=min(before),
        margin=margin,
    )


def _alarms(metrics: Metrics) -> Claim:
    """Over all heads and sets; of the attack with most."""
    rows: dict[str, list[int]] = {}
    for cell in metrics.cells:
        for name, row in cell.attacks.items():
            if "fresh" in row:
                alarms, fresh = rows.get(name, [0, 0])
                rows[name] = [alarms + sum(row.false_alarms), fresh + sum(row.fresh)]
    rates = {name: alarms / fresh for name, (alarms, fresh) in rows.items()}
    most = max(rates.values())
    return claim(
        "heads-false-alarms",
        {"rates": rates, "most": most},
        verdict="finding" if most <= ALARMS else "not reproduced",
        value=most,
        null_value=0.01,
        margin=ALARMS - most,
    )


def best_other(cell: Record) -> str:
    """The attack of others that identifies most members over all sets."""
    others = [name for name in cell.attacks if name not in (*OURS, *POORER, ENERGY)]
    return max(others, key=lambda name: pooled(cell, (name,)))


@chart
def plot_attacks(result: Result[Metrics]) -> Figure:
    """Share of members identified at 1 % false alarms by the number of training images, over all
    sets: the matched filter and the span test, orange, and the attacks of others, grey and dashed.
    """
    cells = [cell for cell in result.metrics.cells if cell.classes == 10 and not cell.balanced]
    recipes = [name for name in (SGD, ADAMW) if any(c.recipe == name for c in cells)]
    figure, panels = plt.subplots(
        1, len(recipes), figsize=(PAGE, 3.4), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, recipe in zip(panels[0], recipes, strict=True):
        rows = sorted((c for c in cells if c.recipe == recipe), key=lambda c: c.n_train)
        n, ends = [row.n_train for row in rows], []
        for name in (FILTER, SPAN, *DRAWN):
            values = [100 * pooled(row, (name,)) for row in rows]
            ours = name in OURS
            colour = SERIES[1] if ours else REFERENCE
            ax.plot(n, values, ("o-" if name == FILTER else "o:") if ours else ".--", color=colour)
            ends.append((values[-1], name, colour))
        ax.set(xscale="log", xticks=n, xticklabels=n, ylim=(-3, 103), xlabel="training images")
        ax.minorticks_off()
        ax.set_title(recipe)
        end_labels(ax, ends)
    panels[0, 0].set_ylabel("members identified, %")
    return figure


@chart
def plot_three_bars(result: Result[Metrics]) -> Figure:
    """Members of a head of a hundred images by AdamW that are identified at 1 % false alarms: from
    the weights, by the head's own confidence, and by chance; the mean of sets, and each set.
    """
    cell = headline(result.metrics)
    bars = {
        "from the weights": (shares(cell, FILTER), SERIES[1]),
        "by the head's own confidence": (shares(cell, CONFIDENCE), REFERENCE),
        "by chance": ([0.01], BASELINE),
    }
    figure, ax = plt.subplots(figsize=(PAGE, 2.3))
    for y, (name, (values, colour)) in enumerate(bars.items()):
        mean = 100 * sum(values) / len(values)
        ax.barh(y, mean, color=colour, height=0.4)
        ax.plot([100 * value for value in values], [y] * len(values), "|", color="black", ms=10)
        note(ax, f"{name}: {mean:.0f} %", (0, y - 0.38), (0, 0), colour)
    ax.set(xlim=(0, 100), ylim=(len(bars) - 0.6, -0.6), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel("members identified, % (lines: image sets)", loc="left")
    return figure


FIGURES = {"attacks": plot_attacks, "three-bars": plot_three_bars}
