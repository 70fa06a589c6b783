"""§4.5's sentences on both landscapes, and ours; DecoReco is judged for descent in all pixels and for our attack."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from recon.chapters.landscape.metrics import BilevelMetrics, BySet, DecorecoMetrics, Ends, Method
from recon.chapters.landscape.sizes import Sizes
from recon.store.results import Claim, verdict


def bilevel_claims(metrics: BilevelMetrics, _: Sizes) -> list[Claim]:
    """The bilevel landscape, and whether its solutions are connected."""
    holds, sentence = corners(metrics.distance)
    null = f"held-out images: {metrics.null_distance_to_truth:.1f} to truth"
    truth = metrics.distance.truth[-1]
    return [
        Claim(
            "landscape-bilevel-corners",
            "4.5, Fig. 10a",
            "From the truth the bilevel result is nearest to the truth, from the partition nearest to the partition.",
            "heatmap",
            sentence,
            null,
            verdict(holds),
        ),
        Claim(
            "landscape-bilevel-crossing",
            "4.5, Fig. 11",
            "Between partition and truth the bilevel result is closer to the partition below λ₁ = 0.5.",
            "0.5",
            crossing_text(metrics),
            "starts swap at 0.5",
            verdict(below_half(metrics, metrics.lambda1)),
        ),
        Claim(
            "landscape-bilevel-noise",
            "4.5, Fig. 12",
            "Between noise and truth the bilevel result's distance to the truth grows with the share of noise.",
            "curve",
            "from λ₂ = 1 to 0: " + ", ".join(f"{value:.1f}" for value in reversed(truth)),
            null,
            verdict(all(a > b for a, b in zip(truth, truth[1:], strict=False))),
        ),
        _connected(metrics),
    ]


def _connected(metrics: BilevelMetrics) -> Claim:
    """At energy zero, and without a jump, to both ends."""
    routes = metrics.connection.routes().values()
    path = metrics.connection.random
    return Claim(
        "landscape-bilevel-connected",
        "",
        "A curve at energy zero leads from the truth to the end points of partition and noise, where the straight "
        "segment leaves the solution set: they are not separate minima."
        if all(route.curve < 1e-12 and route.largest_step < 1.5 for route in routes)
        else "No curve at energy zero was found from the truth to the end points of partition and noise.",
        "",
        f"highest energy, relative to noise: straight {path.straight:.1g}, curve {path.curve:.0e}, whose "
        f"largest step is {path.largest_step:.2f} of the segment's",
        f"of {len(metrics.lambda1)} × {len(metrics.lambda2)} starts these two; projections at every 100th",
        "finding",
    )


def decoreco_claims(metrics: DecorecoMetrics, _: Sizes) -> list[Claim]:
    """DecoReco's landscape, and the comparisons with the bilevel one."""
    methods, lambdas = metrics.variants, metrics.lambda1
    left = max(value for row in methods.pixels.energy for value in row)
    plain = "all pixels" if left < 0.1 else f"all pixels (not converged, up to {left:.0%} left)"
    attacks = {plain: methods.pixels, "our attack": methods.span}
    corner = {name: corners(found.distance) for name, found in attacks.items()}
    return [
        Claim(
            "landscape-decoreco-corners",
            "4.5, Fig. 10b",
            "From the truth DecoReco's result is nearest to the truth, from the partition nearest to the partition.",
            "heatmap",
            "; ".join(f"{name}: {sentence}" for name, (_, sentence) in corner.items()),
            "",
            of_all([holds for holds, _ in corner.values()]),
        ),
        Claim(
            "landscape-decoreco-crossing",
            "4.5, Fig. 11",
            "Between partition and truth DecoReco's result is closer to the partition below λ₁ = 0.5.",
            "0.5",
            "; ".join(f"{name}: {crossing_text(found)}" for name, found in attacks.items()),
            "starts swap at 0.5",
            of_all([below_half(found, lambdas) for found in attacks.values()]),
        ),
        _near_truth(methods.bilevel, attacks),
        _degrades(methods.bilevel, attacks),
        _smoothed(metrics),
    ]


def _near_truth(bilevel: Method, attacks: dict[str, Method]) -> Claim:
    """Smaller by a fifth at both neighbours of (1, 1); at (1, 1) itself the bilevel attack has nothing to do."""
    return Claim(
        "landscape-near-truth",
        "4.5",
        "Near the truth the bilevel distances become much smaller than DecoReco's.",
        "heatmaps",
        f"at (1, 1), where bilevel has nothing to do: {bilevel.distance.truth[-1][-1]:.1g}, "
        + ", ".join(f"{name} {found.distance.truth[-1][-1]:.1f}" for name, found in attacks.items())
        + "; one step away, at (1, ¾) and (¾, 1): "
        + "; ".join(
            f"{name} {_numbers(beside(found.distance))}" for name, found in {"bilevel": bilevel, **attacks}.items()
        ),
        f"the start itself: {_numbers(beside(bilevel.start_distance))}",
        of_all(
            [
                all(a < 0.8 * b for a, b in zip(beside(bilevel.distance), beside(found.distance), strict=True))
                for found in attacks.values()
            ]
        ),
    )


def _degrades(bilevel: Method, attacks: dict[str, Method]) -> Claim:
    """Faster: by two standard errors over seeds."""
    faster = []
    for found in attacks.values():
        gap = slope(bilevel) - slope(found)
        faster.append(bool(gap.mean() > 2 * gap.std() / math.sqrt(len(gap))) if len(gap) > 1 else bool(gap > 0))
    start = bilevel.start_distance.truth[-1]
    return Claim(
        "landscape-degrades",
        "4.5, Fig. 12",
        "With a growing share of noise the bilevel result loses the truth faster than DecoReco's.",
        "curves",
        f"mean cost of a quarter of noise, λ₂ from 1 to 0: bilevel {slope(bilevel).mean():.1f}, "
        + ", ".join(f"{name} {slope(found).mean():.1f}" for name, found in attacks.items()),
        f"the start itself: {(start[0] - start[-1]) / (len(start) - 1):.1f}",
        of_all(faster),
    )


def _smoothed(metrics: DecorecoMetrics) -> Claim:
    """Lower barriers and less curvature, on the same net and on our attack's, and no more minima on the way."""
    other, pixels, span, same = (found.geometry for found in metrics.variants.methods().values())
    smoother = [deep.barrier_mean < other.barrier_mean for deep in (same, span)]
    smoother += [deep.curvature.random < other.curvature.random for deep in (same, span)]
    smoother += [pixels.minima_to_partition <= other.minima_to_partition]
    return Claim(
        "landscape-smoothed",
        "4.5",
        "DecoReco's landscape is a smoothed version of the bilevel one, with fewer local minima.",
        "conjecture",
        f"same affine net, relative to noise: mean barrier {same.barrier_mean:.2g} against {other.barrier_mean:.2g}, "
        f"curvature at the end from noise {same.curvature.random:.1g} against {other.curvature.random:.1g}; "
        f"three-layer net, our attack: barrier {span.barrier_mean:.2g}, curvature {span.curvature.random:.1g}; "
        f"{pixels.minima_to_partition:.1f} minima on the line from truth to partition "
        f"(bilevel: {other.minima_to_partition:.1f})",
        "no difference",
        of_all(smoother),
    )


# ------------------------------------------------------------------------------------------------ what they share


def of_all(holds: list[bool]) -> str:
    """ "partly" where some hold and others do not."""
    return verdict(all(holds)) if all(holds) or not any(holds) else "partly"


def corners(distance: BySet) -> tuple[bool, str]:
    """Whether (1, 1) is nearest to the truth and (0, 1) to the partition, and the distances."""
    truth, start = ({name: values[i][-1] for name, values in distance.sets().items()} for i in (-1, 0))
    holds = min(truth, key=truth.__getitem__) == "truth" and min(start, key=start.__getitem__) == "partition"
    sentence = (
        f"(1, 1): {truth['truth']:.1f} to truth, {truth['partition']:.1f} to partition; "
        f"(0, 1): {start['truth']:.1f} and {start['partition']:.1f}"
    )
    return holds, sentence


def below_half(found: Ends, lambdas: Sequence[float]) -> bool:
    """Whether for all λ₁ < 0.5 at λ₂ = 1 the partition is nearer than the truth."""
    distance = found.distance
    return all(distance.partition[i][-1] < distance.truth[i][-1] for i, value in enumerate(lambdas) if value < 0.5)


def crossing_text(found: Ends) -> str:
    """Where truth and partition swap, over seeds."""
    at = found.crossing.truth_partition
    if at.mean is None:
        return f"they do not swap in {at.per_seed.count(None)} of {len(at.per_seed)} seeds"
    spread = "" if at.sd is None else f" ± {at.sd:.2f}"
    return f"they swap at λ₁ = {at.mean:.2f}{spread}"


def beside(distance: BySet) -> list[float]:
    """Distances to the truth at the two neighbours of (1, 1): (1, ¾) and (¾, 1)."""
    return [distance.truth[-1][-2], distance.truth[-2][-1]]


def slope(found: Method) -> Tensor:
    """What the whole way to noise costs on average per step of λ₂, of each seed."""
    values = torch.tensor(found.noise_line_per_seed)
    return (values[:, 0] - values[:, -1]) / (values.shape[1] - 1)


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)
