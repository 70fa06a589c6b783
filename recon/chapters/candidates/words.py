"""The chapter's tables: what each set keeps of the conditions, and how well each score tells."""

from __future__ import annotations

import pandas as pd

from recon.chapters.candidates.metrics import MemberCell, MemberMetrics, Rates, SetMetrics
from recon.chapters.candidates.names import FREE, KKT, NOISE, NOT_BLIND, PHOTOGRAPH, SHADOWED, TRUTH

SCORES = (*KKT, *SHADOWED, *FREE)


def small(value: float) -> str:
    """A difference: "0" or one digit and a power of ten; two digits from 0.01 on."""
    return "0" if value == 0 else f"{value:.2g}" if value >= 0.01 else f"{value:.0e}"


def conditions_table(metrics: SetMetrics) -> pd.DataFrame:
    """The sets as columns, the conditions as rows."""
    columns = {}
    for name in (TRUTH, NOISE, PHOTOGRAPH, NOT_BLIND):  # a file has them by the alphabet
        row = metrics.sets[name]
        columns[name] = {
            "images": row.images,
            "sum of gradients, difference": small(row.difference),
            "left of layer 1": f"{row.kkt_residual:.6f}",
            "smallest multiplier": f"{row.smallest_multiplier:.2g}",
            "largest change of a margin": small(row.margin_change),
            "slack": "–" if row.slack is None else f"{row.slack:.6f}",
            "NCC with the image between": f"{row.ncc:.2f}",
            "pairs below NCC 0.7": row.far,
            "look natural": f"{row.natural:.0%}",
        }
    return pd.DataFrame(columns)


def told(rates: Rates) -> dict[str, str]:
    """A row of the table of scores."""

    def spread(pair: tuple[float, float]) -> str:
        return f"[{pair[0]:.2f}, {pair[1]:.2f}]"

    return {
        "AUC": f"{rates.auc:.2f} {spread(rates.auc_interval)}",
        "TPR at 1 % FPR": f"{rates.tpr_1:.2f} {spread(rates.tpr_1_interval)}",
        "TPR at 0.1 % FPR": f"{rates.tpr_01:.2f} {spread(rates.tpr_01_interval)}",
    }


def scores_table(cell: MemberCell) -> pd.DataFrame:
    """Every score of one network in the larger pool."""
    return pd.DataFrame({name: told(cell.scores[name].many) for name in SCORES if name in cell.scores}).T


def networks_table(metrics: MemberMetrics) -> pd.DataFrame:
    """TPR at 1 % FPR of the multipliers and of what takes one line, all networks, both pools."""
    rows = {}
    for cell in metrics.cells:
        best = max(FREE[:-1], key=lambda name: cell.scores[name].many.tpr_1)
        rows[f"{cell.recipe}, n = {cell.n_train}, width {cell.width}"] = {
            "as many others": f"{cell.scores[KKT[0]].few.tpr_1:.2f}",
            f"{metrics.ratio} times as many": f"{cell.scores[KKT[0]].many.tpr_1:.2f}",
            "start known": f"{cell.scores[KKT[1]].many.tpr_1:.2f}",
            "best one-line test": f"{cell.scores[best].many.tpr_1:.2f} ({best})",
            "left of θ*": f"{cell.left:.2f}",
            "left of θ* − θ⁰": f"{cell.known_left:.2f}",
        }
    return pd.DataFrame(rows).T


def coverage_table(metrics: MemberMetrics) -> pd.DataFrame:
    """The multipliers against the share of the training images that the pool holds."""
    rows = {}
    for cell in metrics.cells:
        if cell.coverage:
            tried = sorted(cell.coverage, key=float, reverse=True)
            shares = {"all": cell.scores[KKT[0]].many} | {f"{float(name):.0%}": cell.coverage[name] for name in tried}
            rows[cell.recipe] = {name: f"{rates.tpr_1:.2f} (AUC {rates.auc:.2f})" for name, rates in shares.items()}
    return pd.DataFrame(rows).T
