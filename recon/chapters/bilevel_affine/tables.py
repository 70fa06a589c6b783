"""Tables of the affine bilevel chapter, over image sets."""

from __future__ import annotations

import pandas as pd

from recon.chapters.bilevel_affine.metrics import Metrics
from recon.chapters.bilevel_common import PAPER_AFFINE, STARTS
from recon.chapters.bilevel_pictures import over_sets
from recon.store.results import Result


def distance_table(results: list[Result[Metrics]]) -> pd.DataFrame:
    """Table 1's affine column: the paper's value, our descent, the plain one; how far images moved, how near."""
    found = [result.metrics for result in results]
    rows = {}
    for start in STARTS:
        ours, plain = [m.starts()[start] for m in found], [m.plain.starts()[start] for m in found]
        rows[start] = {
            "paper, Table 1": f"{PAPER_AFFINE[start]:.2e}",
            "ours": over_sets([each.distance_sum for each in ours]),
            "plain descent": over_sets([each.distance_sum for each in plain]),
            "converged": f"{sum(e.converged for e in ours)}, {sum(e.converged for e in plain)} of {len(found)}",
            "moved (L2)": over_sets([each.moved_l2 for each in ours], ".2f"),
            "plain: moved": over_sets([each.moved_l2 for each in plain], ".2f"),
            "nearest training image": over_sets([each.nn_train_l2 for each in ours], ".1f"),
            "plain: outside [0, 1]": over_sets([each.outside_box for each in plain], ".1%"),
        }
    rows["null"] = {
        "ours": "other data: " + over_sets([m.null.other_data_sum for m in found], ".3g"),
        "nearest training image": "held out: " + over_sets([m.null.held_out_nn_l2 for m in found], ".1f"),
    }
    return pd.DataFrame(rows).T.fillna("")


def stopped_table(results: list[Result[Metrics]]) -> pd.DataFrame:
    """‖θ* − θ‖² where the inner problem is stopped at ‖∇E‖ ≤ ε, for the images that the attack ended with."""
    found = [result.metrics.stopped for result in results]
    rows = {}
    for same in zip(*found, strict=True):
        rows[f"{same[0].tol:.0e}"] = {
            "iterations": over_sets([each.iterations for each in same], ".0f"),
            **{start: over_sets([each.distances()[start] for each in same]) for start in STARTS},
        }
    rows["paper, Table 1"] = {start: f"{value:.2e}" for start, value in PAPER_AFFINE.items()}
    return pd.DataFrame(rows).T.fillna("")
