"""Chapter 8's sentences on what decides whether weights leak."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from scipy.stats import spearmanr

from companion.chapters.claims import claim
from companion.chapters.pictures import BASELINE, PAGE, RECOVERED, SERIES, chart, dot_rows
from companion.chapters.weights_leak.experiment_recipes import KNOWN, RecipeSizes
from companion.chapters.weights_leak.experiment_recipes import Metrics as RecipeMetrics
from companion.chapters.weights_leak.story_size import share
from companion.store.record import Record
from companion.store.results import Claim, Result, graded
from recon.scoring.nulls import clears

ERASED = 3.0  # Σ lr · decay / (1 − momentum) from which on the start is gone


def claims(metrics: RecipeMetrics, _: RecipeSizes) -> list[Claim]:
    """What decides: how much of the start is left, whether its place is known, and whether inputs
    are centred.
    """
    return [_start_erased(metrics), _known_start(metrics), _centred(metrics)]


def _start_erased(metrics: RecipeMetrics) -> Claim:
    """By gradient descent, full or stochastic; AdamW, whose steps are others, beside it."""
    cells = [cell for cell in metrics.of("decay", "start") if cell.known == KNOWN[0]]
    adamw = [cell for cell in cells if "AdamW" in cell.cell and (cell.erased or 0.0) >= ERASED]
    cells = [cell for cell in cells if "Adam" not in cell.cell]
    excess = [cell.excess.ncc_07 for cell in cells]
    # of the start, beside what training added
    left = [abs(cell.start_left) / max(cell.added, 1e-12) for cell in cells]
    rho = float(spearmanr(left, excess).statistic) if len(cells) > 2 else math.nan
    decay = [cell for cell in cells if cell.family == "decay"]
    erased = [cell for cell in decay if (cell.erased or 0.0) >= ERASED]
    stands = [cell for cell in decay if cell.erased is not None and cell.erased < 0.5]
    holds = erased and all(map(found_more, erased)) and not any(map(found_more, stands))
    return claim(
        "leak-start-erased",
        {"n_train": metrics.cells[0].n_train, "rho": rho}
        | _counts(erased=erased, stands=stands, adamw=adamw),
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
    counts = {}
    for name, cells in groups.items():
        counts[name] = [cell.matches.ncc_07 for cell in cells] or "none run"
        counts[f"{name}_null"] = [cell.best_null.ncc_07 for cell in cells] or "none run"
    return counts


@chart
def plot_erased(*results: Result[RecipeMetrics]) -> Figure:
    """Images recovered against Σ, by which weight decay has erased the start; a mark is a network,
    of every result.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    decay = [cell for result in results for cell in result.metrics.of("decay")]
    cells = [cell for cell in decay if cell.erased is not None]
    for adam, known in product((False, True), KNOWN):
        group = [c for c in cells if (c.cell.startswith("Adam"), c.known) == (adam, known)]
        x = [c.erased for c in group]
        y = [100 * share(c, c.matches) for c in group]
        colour = SERIES[3] if adam else SERIES[4]
        words = ("Adam, AdamW" if adam else "gradient descent") + f", initial weights {known}"
        fill = "white" if known == KNOWN[1] else colour
        ax.plot(x, y, "o", ms=7, mfc=fill, mec=colour, mew=1.6, label=words)
    null = max(100 * share(c, c.best_null) for c in cells)
    ax.axhline(null, color=BASELINE, ls=":", lw=1.4, zorder=0, label="highest baseline")
    ax.set_xscale("asinh", linear_width=0.5)
    ax.set_xticks(ticks := [0, 0.5, 1, 2, 5, 10], map(str, ticks))
    ax.minorticks_off()
    ax.set(xlabel="Σ lr · decay / (1 − momentum)", ylabel="training images recovered, %")
    ax.set_ylim(-3, 103)
    ax.legend(loc="center left", bbox_to_anchor=(0.25, 0.6))
    return figure


@chart
def plot_recipes(
    result: Result[RecipeMetrics], families: Sequence[str] = ("inputs", "task")
) -> Figure:
    """Of these families: images recovered (dot), the best null (ring), and accuracy on other
    images.
    """
    cells = result.metrics.of(*families)
    ring = {"marker": "o", "color": BASELINE, "mfc": "white", "mew": 1.8}
    marks: dict[str, tuple[list[float], dict[str, Any]]] = {
        "best baseline": ([share(c, c.best_null) for c in cells], ring),
        "recovered": ([share(c, c.matches) for c in cells], {"marker": "o", "color": RECOVERED}),
    }
    return dot_rows(
        [c.cell.replace("start", "init") for c in cells], marks, [c.test_accuracy for c in cells]
    )


FIGURES = {"erased": plot_erased, "recipes": plot_recipes}
