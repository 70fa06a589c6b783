"""§4.5's conjecture."""

from __future__ import annotations

from typing import Any

from companion.chapters.landscape.experiment_decoreco import DecorecoSizes
from companion.chapters.landscape.experiment_decoreco import Metrics as DecorecoMetrics
from companion.chapters.landscape.story_bilevel import of_all
from companion.store.results import Claim


def claims(metrics: DecorecoMetrics, _: DecorecoSizes) -> list[Claim]:
    """The conjecture: lower barriers and less curvature on the same net, fewer minima on the way on the three-layer
    net; there, of our attack, also barriers and curvature, if it had converged everywhere."""
    methods = metrics.variants
    other, same, deep = (each.geometry for each in (methods.bilevel, methods.affine, methods.unprojected))
    judged = [same, deep] if all(share == 1 for row in methods.unprojected.cells_converged for share in row) else [same]
    smoother = [each.barrier_mean < other.barrier_mean for each in judged]
    smoother += [each.curvature.random < other.curvature.random for each in judged]
    smoother += [deep.minima_to_partition < other.minima_to_partition]
    claim = Claim(
        "landscape-smoothed",
        "4.5",
        "DecoReco's landscape is a smoothed version of the bilevel one, with fewer local minima.",
        "conjecture",
        f"same affine net, relative to noise: mean barrier {same.barrier_mean:.2g} against {other.barrier_mean:.2g}, "
        f"curvature at the end from noise {same.curvature.random:.1g} against {other.curvature.random:.1g}; "
        f"three-layer net{'' if len(judged) > 1 else ' (ends not converged, not judged)'}: barrier "
        f"{deep.barrier_mean:.2g}, curvature {deep.curvature.random:.1g}; "
        f"{deep.minima_to_partition:.1f} minima on the line from truth to partition "
        f"(bilevel: {other.minima_to_partition:.1f}); {sum(smoother)} of {len(smoother)} comparisons hold",
        "no difference: none holds",
        of_all(smoother),
        value=float(sum(smoother)) / len(smoother),
        null_value=0.0,
    )
    return [claim]


FIGURES: dict[str, Any] = {}  # none of its own
