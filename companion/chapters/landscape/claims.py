"""§4.5's sentences on the bilevel landscape, and its conjecture; those on DecoReco are in `claims_recipe`."""

from __future__ import annotations

from collections.abc import Sequence

from companion.chapters.landscape.metrics import (
    BilevelMetrics,
    BySet,
    Connections,
    DecorecoMetrics,
    Ends,
    Route,
)
from companion.chapters.landscape.sizes import BilevelSizes, DecorecoSizes
from companion.store.results import Claim, verdict

ROUNDING = 1e-10  # relative error of a classifier below which it counts as the same, in float64
STRIDE = 1.5  # longest step of a curve, relative to the straight segment's, below which neighbours stay neighbours


def bilevel_claims(metrics: BilevelMetrics, _: BilevelSizes) -> list[Claim]:
    """The bilevel landscape, and whether its solutions are connected."""
    ends, starts = metrics.distance, metrics.start_distance
    null = f"held-out images: {metrics.null_distance_to_truth:.1f} to truth"
    truth = ends.truth[-1]
    return [
        Claim(
            "landscape-bilevel-corners",
            "4.5, Fig. 10a",
            "From the truth the bilevel result is nearest to the truth, from the partition nearest to the partition.",
            "heatmap",
            corners(ends),
            null,
            verdict(corner_lead(ends) > 0),
            value=corner_lead(ends),
            null_value=corner_lead(starts),
            margin=corner_lead(ends),
        ),
        Claim(
            "landscape-bilevel-crossing",
            "4.5, Fig. 11",
            "Between partition and truth the bilevel result is closer to the partition below λ₁ = 0.5.",
            "0.5",
            crossing_text(metrics),
            "starts swap at 0.5",
            verdict(lead_below_half(ends, metrics.lambda1) > 0),
            value=lead_below_half(ends, metrics.lambda1),
            null_value=lead_below_half(starts, metrics.lambda1),
            margin=lead_below_half(ends, metrics.lambda1),
        ),
        Claim(
            "landscape-bilevel-noise",
            "4.5, Fig. 12",
            "Between noise and truth the bilevel result's distance to the truth grows with the share of noise.",
            "curve",
            "from λ₂ = 1 to 0: " + ", ".join(f"{value:.1f}" for value in reversed(truth)),
            null,
            verdict(least_cost(truth) > 0),
            value=least_cost(truth),
            null_value=least_cost(starts.truth[-1]),
            margin=least_cost(truth),
        ),
        _connected(metrics.connection),
    ]


def _connected(found: Connections) -> Claim:
    """Without bounds, where the theorem says so: at rounding error, and without a jump."""
    applies, routes = found.level > found.sufficient, found.free()
    holds = [applies and same_classifier(route) for route in routes]
    first = f"nω‖θ*‖² = {found.level:.1f}, more than {found.sufficient:.2f} suffices; " if applies else ""
    error, straight = max(route.error for route in routes), min(route.straight_error for route in routes)
    return Claim(
        "landscape-bilevel-connected",
        "",
        "All training sets of the affine classifier are connected, pixels being any real numbers: explicit curves "
        "lead from the truth to where the attack ends from the partition and from noise.",
        "",
        f"{first}highest error of the retrained classifier on the curves {error:.0e}, longest step "
        f"{max(route.largest_step for route in routes):.2f} of the straight segment's",
        f"straight segments: {straight:.2g} at least",
        "finding" if all(holds) else of_all(holds),
        value=error,
        null_value=straight,
    )


def same_classifier(route: Route) -> bool:
    """On every frame, and without a jump: a double step would then be little longer than a single one."""
    steady = route.largest_double_step > 0.75 * route.largest_step
    return route.error < ROUNDING and route.largest_step < STRIDE and steady


def decoreco_claims(metrics: DecorecoMetrics, _: DecorecoSizes) -> list[Claim]:
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


# ------------------------------------------------------------------------------------------------ what they share


def of_all(holds: list[bool]) -> str:
    """ "partly" where some hold and others do not."""
    return verdict(all(holds)) if all(holds) or not any(holds) else "partly"


def corners(distance: BySet) -> str:
    """Distances at (1, 1) and (0, 1)."""
    return (
        f"(1, 1): {distance.truth[-1][-1]:.1f} to truth, {distance.partition[-1][-1]:.1f} to partition; "
        f"(0, 1): {distance.truth[0][-1]:.1f} and {distance.partition[0][-1]:.1f}"
    )


def corner_lead(distance: BySet) -> float:
    """How much nearer (1, 1) is to the truth, and (0, 1) to the partition, than to any other set; the lesser."""
    leads = []
    for i, own in ((-1, "truth"), (0, "partition")):
        here = {name: values[i][-1] for name, values in distance.sets().items()}
        leads.append(min(value for name, value in here.items() if name != own) - here[own])
    return min(leads)


def lead_below_half(distance: BySet, lambdas: Sequence[float]) -> float:
    """How much nearer the partition is than the truth at λ₂ = 1, at least, for all λ₁ < 0.5."""
    return min(distance.truth[i][-1] - distance.partition[i][-1] for i, value in enumerate(lambdas) if value < 0.5)


def least_cost(line: Sequence[float]) -> float:
    """Of distances for growing λ₂: by how much they fall at least from one to the next."""
    return min(a - b for a, b in zip(line, line[1:], strict=False))


def crossing_text(found: Ends) -> str:
    """Where truth and partition swap, over seeds."""
    at = found.crossing.truth_partition
    if at.mean is None:
        return f"they do not swap in {at.per_seed.count(None)} of {len(at.per_seed)} seeds"
    spread = "" if at.sd is None else f" ± {at.sd:.2f}"
    return f"they swap at λ₁ = {at.mean:.2f}{spread}"
