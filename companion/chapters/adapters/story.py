"""The sentences on adapters; the rules were written before the runs that they judge."""

from __future__ import annotations

from itertools import product
from statistics import fmean

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.chapters.adapters.experiment import BOTH, CLASSES, KNOWN, LAYERS, Metrics, Sizes
from companion.chapters.claims import claim
from companion.chapters.members import finding
from companion.chapters.pictures import PAGE, heatmap
from companion.store.record import Record
from companion.store.results import Claim, Result, graded

ONE = 0.9995  # an area or a share that is written as 1.000
MOST = 0.5
QUIET = 0.012  # false alarms in adapters of other images, where 1 % is asked for


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """The certificate where its condition is true, and what AdamW leaves of it."""
    return [_certificate(metrics, sizes), _adamw(metrics)]


def identified(cells: list[Record], name: str = "attack") -> float:
    """Share of the members at 1 % of false alarms, the mean of cells; by "simple" the best of those
    scores.
    """
    scores = [cell.simple.values() if name == "simple" else [cell[name]] for cell in cells]
    return fmean(max(rates.tpr_at_1pct for rates in of) for of in scores)


def _certificate(metrics: Metrics, sizes: Sizes) -> Claim:
    """Exact where the condition is true, and not believed after other steps, or of more images than
    fit.
    """
    true = [cell for cell in metrics.cells if cell.condition]
    believed = [cell for cell in metrics.cells if cell.holds]
    allowed = [vars(cell) for cell in sizes.cells if cell.exact and cell.fits]
    wrong = [cell for cell in believed if cell.only(*allowed[0]) not in allowed]
    least = min(min(c.certificate.auc, c.certificate.tpr_at_01pct) for c in true)
    right = sum(cell.holds for cell in true)
    quiet = fmean(c.strangers for c in metrics.cells)
    values = {
        "all": len(metrics.cells),
        "true": len(true),
        "least": least,
        "inside": max(cell.inside for cell in true),
        "outside": min(cell.outside for cell in true),
        "believed": right,
        "wrong": len(wrong),
        "less": len(believed) - len(wrong) - right,
        "strangers": quiet,
        "simple": identified(true, "simple"),
    }
    return finding(
        "adapter-certificate",
        values,
        value=least,
        null_value=values["simple"],
        margin=-1.0 if wrong else min(least - ONE, QUIET - quiet),
    )


def _adamw(metrics: Metrics) -> Claim:
    """Of the adapters of most images, ten classes, by AdamW as it comes."""
    adamw = [c for c in metrics.cells if (c.recipe, c.classes) == ("AdamW", CLASSES)]
    most = max(cell.n for cell in adamw)
    cells = [cell for cell in adamw if cell.n == most]
    kinds = {kind: [c for c in cells if c.public == f"{kind} classes"] for kind in ("new", "known")}
    quiet = fmean(cell.strangers for cell in adamw)
    values = {
        name: identified(cells, name) for name in ("attack", "merged", "certificate", "simple")
    }
    values |= {kind: identified(of) for kind, of in kinds.items()}
    ours = values["attack"]
    bound = max(MOST, 2 * values["simple"])
    believed = any(cell.holds for cell in adamw)
    return claim(
        "adapter-adamw",
        {**values, "n": most, "strangers": quiet},
        verdict=graded(ours > bound and quiet <= QUIET and not believed),
        value=ours,
        null_value=values["simple"],
        margin=ours - bound,
    )


@heatmap
def plot_map(result: Result[Metrics]) -> Figure:
    """Members identified at 1 % of false alarms, by layer and optimiser, rank and images; starred
    where the certificate is true.
    """
    cells = [cell for cell in result.metrics.cells if cell.classes == CLASSES]
    ranks = sorted({(cell.public == KNOWN, cell.rank) for cell in cells})
    columns = sorted({cell.n for cell in cells})
    figure, axes = plt.subplots(2, 2, figsize=(PAGE, 4.0), sharex=True, sharey=True)
    for ax, panel in zip(axes.flat, product(BOTH, LAYERS), strict=True):
        shares = np.full((len(ranks), len(columns)), np.nan)
        for cell in [c for c in cells if (c.recipe, c.layers) == panel]:
            y = ranks.index((cell.public == KNOWN, cell.rank))
            x = columns.index(cell.n)
            shares[y, x] = share = 100 * cell.attack.tpr_at_1pct
            words = f"{share:.0f}" + " *" * cell.condition
            ax.text(x, y, words, c="wk"[share <= 60], ha="center", va="center")
        ax.imshow(shares, vmin=0, vmax=100, cmap="Blues", aspect="auto")
        ax.set(title=", ".join(reversed(panel)), xticks=range(len(columns)), xticklabels=columns)
        ax.set_yticks(range(len(ranks)), [f"r = {r}" + f", {KNOWN}" * known for known, r in ranks])
        ax.grid(visible=False)
    figure.supxlabel("training images", size=9)
    return figure


FIGURES = {"map": plot_map}
