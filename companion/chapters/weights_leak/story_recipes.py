"""Chapter 8's sentences on what decides whether weights leak."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from companion.chapters.claims import claim
from companion.chapters.pictures import FREE, PAGE, REFERENCE, SERIES, TRAIN, chart, note
from companion.chapters.weights_leak.experiment_recipes import KNOWN, NOISE, RecipeSizes
from companion.chapters.weights_leak.experiment_recipes import Metrics as RecipeMetrics
from companion.chapters.weights_leak.story_size import share
from companion.store.record import Record
from companion.store.results import Claim, Result, graded
from recon.scoring.nulls import clears


def claims(metrics: RecipeMetrics, _: RecipeSizes) -> list[Claim]:
    """What decides: how much of the start is left, whether its place is known, and whether inputs
    are centred.
    """
    return [_start_erased(metrics), _known_start(metrics), _centred(metrics)]


def _start_erased(metrics: RecipeMetrics) -> Claim:
    cells = [cell for cell in metrics.of("decay", "start") if cell.known == KNOWN[0]]
    excess = [cell.excess.ncc_07 for cell in cells]
    # of the start, beside what training added
    left = [abs(cell.start_left) / max(cell.added, 1e-12) for cell in cells]
    rho = float(spearmanr(left, excess).statistic) if len(cells) > 2 else math.nan
    decay = [cell for cell in cells if cell.family == "decay"]
    erased = [cell for cell in decay if (cell.erased or 0.0) >= 3]
    stands = [cell for cell in decay if cell.erased is not None and cell.erased < 0.5]
    holds = erased and all(map(found_more, erased)) and not any(map(found_more, stands))
    return claim(
        "leak-start-erased",
        {"n_train": metrics.cells[0].n_train, "rho": rho} | _counts(erased=erased, stands=stands),
        verdict="finding" if holds else "not reproduced",
        value=min((cell.matches.ncc_07 for cell in erased), default=None),
        null_value=max((cell.best_null.ncc_07 for cell in erased), default=None),
    )


def _known_start(metrics: RecipeMetrics) -> Claim:
    known = [cell for cell in metrics.of("decay") if cell.known == KNOWN[1] and cell.erased == 0.0]
    by_sgd = [cell for cell in known if cell.cell.startswith("SGD")]
    by_adam = [cell for cell in known if cell.cell.startswith("Adam")]
    return claim(
        "leak-known-start",
        {"n_train": metrics.cells[0].n_train} | _counts(sgd=by_sgd, adam=by_adam),
        verdict="finding" if by_sgd and all(map(found_more, by_sgd)) else "not reproduced",
        value=min((cell.matches.ncc_07 for cell in by_sgd), default=None),
        null_value=max((cell.best_null.ncc_07 for cell in by_sgd), default=None),
    )


def _centred(metrics: RecipeMetrics) -> Claim:
    """By any mean; raw pixels leave less than half as many as the worst of these."""
    cells = metrics.of("inputs")
    raw = [cell for cell in cells if cell.cell.startswith("raw")]
    centred = [cell for cell in cells if cell not in raw]
    least = min((cell.matches.ncc_07 for cell in centred), default=0)
    most = max((cell.matches.ncc_07 for cell in raw), default=0)
    recovers = all(map(found_more, centred)) and 2 * least > metrics.n_train
    return claim(
        "leak-centred",
        {"n_train": metrics.n_train, "centred": centred, "raw": raw},
        verdict=graded(recovers, recovers and 2 * most < least),
        value=least,
        null_value=most,
        margin=min(least - metrics.n_train / 2, least / 2 - most),
    )


def found_more(cell: Record) -> bool:
    """Whether a cell's count at NCC 0.7 clears its best null."""
    return clears(cell.matches.ncc_07, cell.best_null.ncc_07)


def _counts(**groups: list[Record]) -> dict[str, Any]:
    """By the name of a group, and NAME_null, what its cells have above NCC 0.7."""
    return {
        name + end: [cell[counts].ncc_07 for cell in cells] or "none run"
        for name, cells in groups.items()
        for end, counts in (("", "matches"), ("_null", "best_null"))
    }


AUGMENTED = ("flips", "shifts", "flips and shifts")
#: cell -> row, where it has another name
SHORT = "small start, short"
DEFENCES = {
    "base": "base recipe",
    **{name: name for name in (*AUGMENTED, "dropout 0.5", *NOISE)},
    SHORT: "small start, few steps",
    **{f"{SHORT}, DP-SGD, ε = {e}": f"the same by DP-SGD, ε = {e}" for e in (100, 8, 3, 1)},
}


@chart
def plot_erased(*results: Result[RecipeMetrics]) -> Figure:
    """Images found against Σ, by which weight decay has erased the start; a mark is a network, of
    every result.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    cells = []
    for result in results:
        decay = [cell for cell in result.metrics.of("decay") if cell.known in KNOWN]
        cells += [cell for cell in decay if cell.erased is not None]
    most = max(math.sqrt(cell.erased) for cell in cells) or 1.0
    groups = {
        ("SGD", "unknown"): ("gradient descent", TRAIN),
        ("SGD", "known"): ("gradient descent, start known", TRAIN),
        ("Adam", "unknown"): ("AdamW", SERIES[3]),
        ("Adam", "known"): ("Adam, start known", SERIES[3]),
    }
    for (optimiser, known), (words, colour) in groups.items():
        adam = optimiser == "Adam"  # every weight has had a step size of its own
        group = [c for c in cells if (c.cell.startswith("Adam"), c.known) == (adam, known)]
        x = [math.sqrt(c.erased) + 0.012 * most * adam for c in group]
        y = [100 * share(c, c.matches) for c in group]
        fill = "white" if known == "known" else colour
        ax.plot(x, y, "o", ms=7, mfc=fill, mec=colour, mew=1.6)
        if group:
            at = max(zip(x, y, strict=True))
            if at[0] < most / 2 or words == "AdamW":
                note(ax, words, at, (9, 0), colour)
            else:
                note(ax, words, at, (-9, 0), colour, ha="right")
    null = max(100 * share(c, c.best_null) for c in cells)
    ax.axhline(null, color=FREE, ls=":", lw=1.4, zorder=0)
    note(ax, "highest null", (0.36 * most, null), (0, 7), FREE)
    sums = sorted({round(c.erased, 1 if c.erased < 0.1 else 2) for c in cells})
    ax.set_xticks([math.sqrt(total) for total in sums], [f"{total:g}" for total in sums])
    ax.set(
        xlabel="Σ lr · decay / (1 − momentum)", ylabel="training images found, %", ylim=(-3, 103)
    )
    return figure


@chart
def plot_recipes(result: Result[RecipeMetrics]) -> Figure:
    """Inputs, other losses and tasks: images recovered (dot), the best null (ring), and accuracy on
    other images.
    """
    stopped: dict[float, Record] = {}
    for cell in result.metrics.of("stop"):
        stopped.setdefault(cell.loss, cell)  # of two that stopped at one step, the first
    others = [c for c in result.metrics.of("task") if c.cell not in (*AUGMENTED, "base")]
    inputs = result.metrics.of("inputs")
    return _rows([(c.cell, c) for c in [*inputs, *stopped.values(), *others]])


@chart
def plot_defences(result: Result[RecipeMetrics]) -> Figure:
    """The base recipe and what may stop the attack on it; drawn as `plot_recipes` draws."""
    at = {c.cell: c for c in result.metrics.of("task", "defence")}
    return _rows([(words, at[name]) for name, words in DEFENCES.items() if name in at])


def _rows(rows: list[tuple[str, Record]]) -> Figure:
    """From the top down."""
    figure, ax = plt.subplots(figsize=(PAGE, 0.3 * max(len(rows), 2) + 1.0))
    y, cells = range(len(rows)), [cell for _, cell in rows]
    matches, null = (
        [100 * share(cell, cell[counts]) for cell in cells] for counts in ("matches", "best_null")
    )
    ax.hlines(y, null, matches, color="#bbbbbb", lw=2, zorder=1)
    ax.plot(null, y, "o", ms=8, mfc="white", mec=FREE, mew=1.8, label="best null")
    ax.plot(matches, y, "o", ms=8, color=TRAIN, label="found")
    accuracies = [(at, f"{cell.test_accuracy:.0%}") for at, cell in zip(y, cells, strict=True)]
    for at, words in [*accuracies, (-0.9, "accuracy")]:
        ax.text(118, at, words, va="center", ha="right", color=REFERENCE)
    ax.set_yticks(y, [words for words, _ in rows])
    ax.set(xlabel="training images found, per cent", xlim=(-3, 118))
    ax.set_ylim(max(len(rows), 1) - 0.3, -1.1)
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, reverse=True)
    return figure


FIGURES = {"erased": plot_erased, "recipes": plot_recipes, "defences": plot_defences}
