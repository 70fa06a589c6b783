"""The chapter's sentences on features; the rules were written before the runs that they judge."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.heads.experiment import BENT, SGD, Metrics, Sizes, best_null
from companion.chapters.members import attack_rows
from companion.chapters.pictures import BASELINE, RECOVERED, SERIES, chart
from companion.store.results import Claim, Result
from recon.scoring.nulls import clears

PRECISE = 0.95  # share of the certified features that must be true
MOST = 0.5


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What the chapter says; of the first cell, and of what else was run."""
    return [_unmixed(metrics), _certified(metrics)]


def _unmixed(metrics: Metrics) -> Claim:
    """Of the most images that are at most two thirds of the hidden units."""
    width = metrics.cells[0].width
    same = [cell for cell in metrics.cells if (cell.recipe, cell.width) == (SGD, width)]
    cell = max([c for c in same if 3 * c.n_train <= 2 * width], key=lambda c: c.n_train)
    ours = cell.matches.cos_09
    null = best_null(cell).cos_09
    holds = ours > MOST * cell.n_train and clears(ours, null)
    return claim(
        "heads-unmix",
        {**cell, "ica": cell.fast_ica or cell.null, "best_null": null},
        verdict="finding" if holds else "not reproduced",
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
        if cell.recipe == SGD or (cell.start == "known" and cell.recipe not in BENT)
    ]
    counts = ("certified", "certified_true", "n_train")
    sums = {name: sum(cell[name] for cell in exact) for name in counts}
    certified, true, n = sums.values()
    share = true / max(certified, 1)
    return claim(
        "heads-certified",
        {**sums, "heads": len(exact)},
        verdict="finding" if share >= PRECISE and true > MOST * n else "not reproduced",
        value=share,
        margin=min(share - PRECISE, true / n - MOST),
    )


@chart
def plot_images(result: Result[Metrics]) -> Figure:
    """Share of the training features recovered, by their number, with FastICA's and the best
    null.
    """
    first = result.metrics.cells[0].only("recipe", "start", "backbone", "width", "classes")
    cells = [cell for cell in result.metrics.cells if cell.only(*first) == first]
    marks = {
        "best baseline": (lambda cell: best_null(cell).cos_09, "s", BASELINE),
        "FastICA": (lambda cell: (cell.fast_ica or cell.null).cos_09, "x", BASELINE),
        "of them certified": (lambda cell: cell.certified_true, "o", SERIES[3]),
        "linear programmes": (lambda cell: cell.matches.cos_09, "D", RECOVERED),
    }
    return attack_rows(
        sorted(cells, key=lambda cell: cell.n_train),
        lambda cell: f"n = {cell.n_train}",
        marks,
        lambda cell, count: count(cell) / cell.n_train,
        lambda cell: cell.test_accuracy,
    )


FIGURES = {"images": plot_images}
