"""§4.3's sentences on the one-hidden net, and our findings on Table 1's average and on the hypergradient.

Distances are those after the inner solver has settled.  A run that is still falling is not judged: "undecided" where a
sentence needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from recon.chapters.bilevel_common import PAPER_HIDDEN
from recon.chapters.bilevel_hidden.metrics import (
    HypergradientMetrics,
    MeanEnded,
    Metrics,
    Path,
    PathMetrics,
    SlopeMetrics,
)
from recon.chapters.bilevel_hidden.readings import INNER, READINGS, readings
from recon.chapters.bilevel_hidden.sizes import HypergradientSizes, PathSizes, Sizes, SlopeSizes
from recon.store.results import Claim, orders_below, verdict

SMALL = 0.1  # of what two seeds are apart
SLOPE_COSINE = 0.9  # from which slopes count as predicted
ALIKE, FALLEN = 0.9, 0.25  # NCC with the start; share of the distance to the released weights that has gone meanwhile
NEAR = 3.0  # factor within which a reading of Table 1 counts as consistent


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's sentences, then ours."""
    return [*_distances(metrics), *_images(metrics), *_findings(metrics)]


def _small(metrics: Metrics, reached: MeanEnded) -> bool:
    return reached.settled_sum <= SMALL * metrics.null.other_seed_sum


def _settled(metrics: Metrics, reached: MeanEnded) -> bool:
    """Whether a distance can be judged: it is small already, or it has ceased to fall."""
    return _small(metrics, reached) or reached.converged == 1


def _falling(*ends: MeanEnded) -> str:
    """What is said where an end is not judged; "" where all are."""
    return "" if all(end.converged == 1 for end in ends) else "; still falling: undecided"


def _if_ended(found: str, *ends: MeanEnded) -> str:
    """The verdict that a sentence on ends gets where all of them had converged."""
    return found if all(end.converged == 1 for end in ends) else "undecided"


def _distances(metrics: Metrics) -> list[Claim]:
    """Small: at most a tenth of what two seeds are apart."""
    null = metrics.null
    found = []
    for name, reached in metrics.inner_start.uniform.starts().items():
        settled = _settled(metrics, reached)
        found.append(
            Claim(
                f"hidden-distance-{name}",
                "4.3, Table 1",
                f"The parameter distance from the {name} start remains small (θ⁰ uniform).",
                f"{PAPER_HIDDEN[name]:.2e}",
                f"sum {reached.settled_sum:.3g}, mean per parameter {reached.settled_sum / metrics.n_params:.1e}"
                + ("" if settled else f" (still falling after {reached.steps:.0f} steps)"),
                f"another seed: sum {null.other_seed_sum:.3g}, mean {null.other_seed_mean:.1e}",
                verdict(_small(metrics, reached)) if settled else "undecided",
                value=reached.settled_sum,
                null_value=null.other_seed_sum,
                margin=orders_below(reached.settled_sum, SMALL * null.other_seed_sum),
            )
        )
    return found


def _images(metrics: Metrics) -> list[Claim]:
    """What they look like, held against held-out images.  Undecided where an end that is judged was still falling."""
    null, random = metrics.null, metrics.inner_start.uniform.random
    held_out = f"held-out images: {null.held_out_nn_l2:.1f}"
    return [
        Claim(
            "hidden-random-noise",
            "4.3 a, Fig. 1b",
            "From a random start the one-hidden net's reconstructions look like random noise.",
            "noise (visual)",
            f"nearest training image {random.nn_train_l2:.1f} away" + _falling(random),
            held_out,
            _if_ended(verdict(random.nn_train_l2 > null.held_out_nn_l2), random),
            value=random.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=random.nn_train_l2 - null.held_out_nn_l2,
        ),
    ]


def _findings(metrics: Metrics) -> list[Claim]:
    """What the average of Table 1 can mean.  Readings of runs that were still falling are left out."""
    null, paper = metrics.null, PAPER_HIDDEN["random"]
    inner = metrics.inner_start
    by_width = sorted(metrics.null_by_width.items())
    share = paper / null.other_seed_mean
    informed = _small(metrics, inner.theta_star.random)
    blind = not any(_small(metrics, found.random) for found in (inner.uniform, inner.other_seed))
    aligned = null.other_seed_sum if null.other_seed_aligned_sum is None else null.other_seed_aligned_sum
    everything = readings(metrics)
    judged = [each for each in everything if each.converged]
    best = min(judged or everything, key=lambda each: each.factor)
    left_out = (len(everything) - len(judged)) // len(READINGS)
    nearer = aligned < inner.theta_star.random.settled_sum
    decided = all(_settled(metrics, found.random) for found in inner.inner_starts().values())
    return [
        Claim(
            "hidden-average-is-null",
            "",
            "Read as a mean per parameter, Table 1's 6.1e-5 is no sign of nearness: two networks that share nothing "
            "but their data are at most twice as far apart.",
            f"{paper:.2e}",
            f"{share:.2g} times it at width {metrics.width}; as a sum {paper * metrics.n_params:.3g}, where ‖θ*‖² "
            f"is {null.zero_sum:.2g}",
            "two seeds, same data, by width: "
            + ", ".join(f"{width}: {each.other_seed_mean:.1e}" for width, each in by_width),
            "finding" if share >= 0.5 else ("partly" if share >= 0.1 else "not reproduced"),
            value=paper,
            null_value=null.other_seed_mean,
        ),
        Claim(
            "hidden-no-reading-fits",
            "",
            f"No reading of Table 1's hidden row (sum, mean per parameter, relative to ‖θ*‖²) comes within a factor of "
            f"{NEAR:.0f} of a run at all three starts.",
            ", ".join(f"{value:.1e}" for value in PAPER_HIDDEN.values()),
            f"nearest: {best.reading}, θ⁰: {INNER[best.inner]}, weight decay {best.weight_decay}: {best.random:.1e}, "
            f"{best.truth:.1e}, {best.partition:.1e}, off by a factor of {best.factor:.2g}"
            + (
                f"; {left_out} of {len(everything) // len(READINGS)} runs still falling, not judged" if left_out else ""
            ),
            f"two seeds: sum {null.other_seed_sum:.3g}, mean {null.other_seed_mean:.1e}",
            "undecided" if not judged else "finding" if best.factor > NEAR else "not reproduced",
            value=best.factor if best.factor < float("inf") else None,
            null_value=NEAR,
        ),
        Claim(
            "hidden-inner-start-decides",
            "",
            "With the inner problem started at the released θ* the distance from a random start falls far below that "
            "of two seeds; from a θ⁰ of the adversary's own it does not.  Two seeds whose units are renumbered are "
            "nearer still.",
            "",
            "random start: "
            + ", ".join(
                f"{found.random.settled_sum:.3g} from {INNER[name]}" for name, found in inner.inner_starts().items()
            )
            + "; partition start: "
            + ", ".join(
                f"{found.partition.settled_sum:.3g} from {INNER[name]}"
                + ("" if found.partition.converged == 1 else " (still falling)")
                for name, found in inner.inner_starts().items()
            )
            + ("" if decided else "; still falling: undecided"),
            f"θ = 0: {null.zero_sum:.3g}; another seed: {null.other_seed_sum:.3g}, renumbered {aligned:.3g}",
            "undecided"
            if not decided
            else ("finding" if nearer and informed and blind else "partly" if informed or blind else "not reproduced"),
            value=inner.theta_star.random.settled_sum,
            null_value=aligned,
        ),
        Claim(
            "hidden-seeds-agree-up-to-order",
            "",
            "Two seeds on the same data differ mostly by the order of their hidden units, which ‖θ* − θ‖² cannot see.",
            "",
            f"{aligned:.2g} after the best renumbering",
            f"{null.other_seed_sum:.3g} as they are",
            "finding"
            if aligned <= 0.25 * null.other_seed_sum
            else ("partly" if aligned <= 0.5 * null.other_seed_sum else "not reproduced"),
            value=aligned,
            null_value=null.other_seed_sum,
        ),
    ]


def hypergradient_claims(metrics: HypergradientMetrics, _: HypergradientSizes) -> list[Claim]:
    """The formula that is exact, what its substitutes are worth, and whether that matters."""
    relu, smooth, ends = metrics.relu, metrics.smooth, metrics.ends
    exact = min((each.exact for each in relu), default=0.0)
    newton, quasi = (median([getattr(each, way) for each in relu] or [0.0]) for way in ("gauss_newton", "quasi_newton"))
    smooth_exact = min(each.exact for each in smooth)
    same = [each.gauss_newton <= 1.25 * each.kkt for each in ends]
    worst = max(each.gauss_newton / each.kkt for each in ends)
    return [
        Claim(
            "hypergradient-smooth",
            "",
            "With a smooth activation the hypergradient of eq. (7) with the exact Hessian is the derivative of the "
            "outer energy.",
            "",
            f"cosine with central differences at least {smooth_exact:.6f} ({len(smooth)} points)",
            f"with the quasi-Newton matrix {median([each.quasi_newton for each in smooth]):.2f}",
            "finding" if smooth_exact >= 0.9999 else "not reproduced",
            value=smooth_exact,
            null_value=median([each.quasi_newton for each in smooth]),
        ),
        Claim(
            "hypergradient-kinks",
            "",
            "ReLU minimisers sit on kinks; there the derivative is that of a KKT system, to which Gauss–Newton comes "
            "close and the quasi-Newton matrix of eq. (7) less so.",
            "",
            f"cosine with central differences: KKT at least {exact:.6f}; median of Gauss–Newton {newton:.3f}, of "
            f"quasi-Newton {quasi:.3f} ({len(relu)} of {metrics.tried} points certified)",
            "a random direction: 0",
            "finding"
            if exact >= 0.999 and newton >= 0.9 and newton > quasi
            else ("partly" if exact >= 0.999 else "not reproduced"),
            value=newton,
            null_value=quasi,
        ),
        Claim(
            "hypergradient-error-costs-speed",
            "",
            "From the same starts the attack ends at most a quarter higher with Gauss–Newton than with the exact "
            "hypergradient.",
            "",
            f"energy of Gauss–Newton over that of the KKT system: at most {worst:.2f} ({len(ends)} starts)",
            f"quasi-Newton: at most {max(each.quasi_newton / each.kkt for each in ends):.2f}",
            "finding" if all(same) else ("partly" if 2 * sum(same) >= len(same) else "not reproduced"),
            value=worst,
            null_value=max(each.quasi_newton / each.kkt for each in ends),
        ),
    ]


def slope_claims(metrics: SlopeMetrics, _: SlopeSizes) -> list[Claim]:
    """Whether the substitute that we take is good at the width at which we take it, and the paper's."""
    firsts = [each.quotients[0] for each in metrics.points if each.width == metrics.width]
    newton, quasi = ([getattr(each, way) for each in firsts] for way in ("gauss_newton", "quasi_newton"))
    repeated = min(each.repeated for each in metrics.points if each.width == metrics.width)
    right, better = median(newton) >= SLOPE_COSINE, median(newton) > median(quasi) + 0.1
    return [
        Claim(
            "hypergradient-at-width",
            "",
            "In wide ReLU networks, too, Gauss–Newton tells how the distance changes a step away; the quasi-Newton "
            "matrix of eq. (7) does not.",
            "",
            f"width {metrics.width}: cosine with the slopes of steps of {firsts[0].step:.0%} of the images, median "
            f"{median(newton):.3f}, at least {min(newton):.3f}; along its own direction "
            f"{min(each.along for each in firsts):.2f} to {max(each.along for each in firsts):.2f} of what it predicts "
            f"({len(firsts)} points; the slopes of another step: at least {repeated:.3f})",
            f"quasi-Newton: median {median(quasi):.2f}, {min(quasi):.2f} to {max(quasi):.2f}; a random direction: 0 ± "
            f"{metrics.directions**-0.5:.2f}",
            "finding"
            if right and better and max(quasi) < SLOPE_COSINE
            else ("partly" if right or better else "not reproduced"),
            value=median(newton),
            null_value=median(quasi),
        ),
    ]


def path_claims(metrics: PathMetrics, _: PathSizes) -> list[Claim]:
    """What the figures show, on the way and at the end; and whether any moment of a slow descent has both what Figs. 2b
    and 4 show and what Table 1 says."""
    ways = [path for by_start in metrics.paths.values() for path in by_start.values()]
    lowest = min(path.alike.settled_sum for path in ways)
    ruined = all(path.end.ncc_with_start < ALIKE for path in ways)
    limit = SMALL * metrics.other_seed_sum
    return [
        _on_the_way(
            "hidden-truth-resembles",
            "4.3 b, Fig. 2b",
            "From the ground truth even the one-hidden net recovers images resembling the training data.",
            "resembling (visual)",
            [by_start["truth"] for by_start in metrics.paths.values()],
            metrics,
        ),
        _on_the_way(
            "hidden-partition-is-start",
            "4.3 c, Fig. 4",
            "From another partition the images used for the initialisation come back, not the training data.",
            "visual",
            [by_start["partition"] for by_start in metrics.paths.values()],
            metrics,
        ),
        Claim(
            "hidden-figures-before-distance",
            "",
            "By steps of at most a hundredth of the images, what Figs. 2b and 4 show (images like their starts) comes "
            "before the distance is small, and is gone before it is.",
            "both at once (Figs. 2b and 4, Table 1)",
            f"while the NCC with the start is at least {ALIKE:g}: {lowest:.3g} at best, {ways[0].first_sum:.3g} before "
            f"the first step; after {ways[0].end.step} steps {min(path.end.settled_sum for path in ways):.3g}, NCC "
            f"{max(path.end.ncc_with_start for path in ways):.2f}",
            f"another seed: {metrics.other_seed_sum:.3g}; θ = 0: {metrics.zero_sum:.3g}",
            "not reproduced" if lowest <= limit else ("finding" if ruined else "partly"),
            value=lowest,
            null_value=metrics.other_seed_sum,
        ),
    ]


def _on_the_way(
    name: str, section: str, sentence: str, paper: str, paths: Sequence[Path], metrics: PathMetrics
) -> Claim:
    """ "reproduced" where the images are still those of the start at the end, "depends on stopping" where they are so
    until the distance to the released weights has fallen by at least `FALLEN`, and no longer; "not reproduced" where
    they are gone before.  Alike: a mean NCC with the start of at least `ALIKE`."""
    end = min(path.end.ncc_with_start for path in paths)
    fallen = min(1 - path.alike.settled_sum / path.first_sum for path in paths)
    alike, last = paths[0].alike, paths[0].end
    on_the_way = "depends on stopping" if fallen >= FALLEN else "not reproduced"
    return Claim(
        name,
        section,
        sentence,
        paper,
        f"after {alike.step} steps of at most {metrics.relative_step:.0%} NCC with the start "
        f"{alike.ncc_with_start:.2f}, distance of the weights down by {fallen:.0%}; after {last.step} steps NCC "
        f"{end:.2f}, nearest training image {last.nn_train_l2:.1f} away",
        f"held-out images: {metrics.held_out_nn_l2:.1f}",
        "reproduced" if end >= ALIKE else on_the_way,
        value=end,
        null_value=ALIKE,
        margin=end - ALIKE if end >= ALIKE else fallen - FALLEN,
    )
