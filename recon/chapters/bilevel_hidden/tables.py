"""Tables of the one-hidden-layer chapter: Table 1 by every reading, over image sets; cosines of hypergradients."""

from __future__ import annotations

import pandas as pd

from recon.chapters.bilevel_common import PAPER_HIDDEN, STARTS
from recon.chapters.bilevel_hidden.figures import WAYS
from recon.chapters.bilevel_hidden.metrics import HypergradientMetrics, Metrics, SlopeMetrics
from recon.chapters.bilevel_hidden.readings import INNER, READINGS, Reading, readings
from recon.chapters.bilevel_pictures import over_sets
from recon.store.results import Result


def run_table(results: list[Result[Metrics]]) -> pd.DataFrame:
    """Every run: weight decay, inner start, start of the images, over image sets."""
    rows = {}
    for decay, at_decay in sorted(results[0].metrics.weight_decays.items()):
        for inner in at_decay.inner_starts():
            for start in STARTS:
                same = [r.metrics.weight_decays[decay].inner_starts()[inner].starts()[start] for r in results]
                rows[decay, INNER[inner], start] = {
                    "at the start": over_sets([each.first_sum for each in same], ".3g"),
                    "after the attack": over_sets([each.distance_sum for each in same], ".3g"),
                    "settled": over_sets([each.settled_sum for each in same], ".3g"),
                    "converged": f"{sum(each.converged == 1 for each in same)} of {len(same)}",
                    "moved (L2)": over_sets([each.moved_l2 for each in same], ".2f"),
                    "nearest training image": over_sets([each.nn_train_l2 for each in same], ".1f"),
                }
    table = pd.DataFrame(rows).T
    return table.rename_axis(["weight decay", "θ⁰", "x"])


def reading_table(results: list[Result[Metrics]]) -> pd.DataFrame:
    """Table 1's hidden row in the units of every reading, beside two networks that share their data only; on how many
    image sets all three runs had converged."""
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for each in readings(results[0].metrics):
        same = [
            next(o for o in readings(r.metrics) if (o.weight_decay, o.inner, o.reading) == _place(each))
            for r in results
        ]
        rows[each.reading, str(each.weight_decay), INNER[each.inner]] = {
            **{start: over_sets([getattr(o, start) for o in same], ".1e") for start in STARTS},
            "off by": over_sets([o.factor for o in same], ".2g"),
            "converged": f"{sum(o.converged for o in same)} of {len(same)}",
        }
    for reading in READINGS:
        for decay in results[0].metrics.weight_decays:
            for words, renumbered in (("null: two seeds", False), ("null: the same, units in one order", True)):
                nulls = [_null(r.metrics, decay, reading, renumbered) for r in results]
                told = [null for null in nulls if null is not None]
                if told:
                    rows[reading, str(decay), words] = {start: over_sets(told, ".1e") for start in STARTS}
    rows["", "", "paper, Table 1"] = {start: f"{value:.1e}" for start, value in PAPER_HIDDEN.items()}
    table = pd.DataFrame(rows).T.fillna("")
    return table.rename_axis(["reading", "weight decay", "θ⁰"]).sort_index(level=[0, 1], sort_remaining=False)


def _place(each: Reading) -> tuple[float, str, str]:
    return each.weight_decay, each.inner, each.reading


def _null(metrics: Metrics, decay: float, reading: str, renumbered: bool) -> float | None:
    """How far two networks are apart that share their data only; None where their units were not renumbered."""
    null = metrics.weight_decays[decay].null
    found = null.other_seed_aligned_sum if renumbered else null.other_seed_sum
    units = {"sum": 1.0, "mean per parameter": metrics.n_params, "relative to ‖θ*‖²": null.zero_sum}
    return None if found is None else found / units[reading]


def cosine_table(result: Result[HypergradientMetrics]) -> pd.DataFrame:
    """Every certified ReLU point and every smooth one: cosines with the derivative of the outer energy."""
    rows = {}
    for kind, points in (("ReLU", result.metrics.relu), ("softplus", result.metrics.smooth)):
        for each in points:
            rows[kind, each.case] = {
                "kinks": str(each.kinks),
                **{label: f"{getattr(each, way):.3f}" for way, label in WAYS.items()},
                "relative error of the first": f"{each.exact_error:.0e}",
            }
    return pd.DataFrame(rows).T


def ends_table(result: Result[HypergradientMetrics]) -> pd.DataFrame:
    """Where attacks from the same start end, by the way to their hypergradient."""
    rows = {
        each.case: {
            "before": f"{each.first:.3g}",
            **{WAYS[way]: f"{getattr(each, way):.3g}" for way in ("gauss_newton", "quasi_newton", "kkt")},
        }
        for each in result.metrics.ends
    }
    return pd.DataFrame(rows).T


def slope_table(results: list[Result[SlopeMetrics]]) -> pd.DataFrame:
    """Every width and weight decay, over starts of the images and image sets: how well the slopes are predicted."""
    rows = {}
    points = [each for result in results for each in result.metrics.points]
    for width, decay in sorted({(each.width, each.weight_decay) for each in points}):
        same = [each for each in points if (each.width, each.weight_decay) == (width, decay)]
        for k, quotient in enumerate(same[0].quotients):
            found = [each.quotients[k] for each in same]
            rows[str(width), str(decay), f"{quotient.step:.1%}, {quotient.iterations} iterations"] = {
                "Gauss–Newton": over_sets([each.gauss_newton for each in found], ".2f"),
                "quasi-Newton": over_sets([each.quasi_newton for each in found], ".2f"),
                "first two steps with each other": over_sets([e.repeated for e in same], ".2f") if k == 0 else "",
                "measured / predicted": over_sets([each.along for each in found], ".2f"),
            }
    return pd.DataFrame(rows).T.rename_axis(["width", "weight decay", "step and inner solver"])
