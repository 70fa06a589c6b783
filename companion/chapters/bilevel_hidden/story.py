"""§4.3's sentences on the one-hidden net, and our findings on the distance of Table 1.

Distances are those after the inner solver has settled.  A run that is still falling is not judged: "undecided" where a
sentence needs it.
"""

from __future__ import annotations

from companion.chapters.bilevel_common import PAPER_HIDDEN, STARTS
from companion.chapters.bilevel_hidden.experiment import INNER_STARTS, Metrics, Sizes
from companion.chapters.bilevel_pictures import plot_starts
from companion.store.record import Record
from companion.store.results import Claim, orders_below, verdict

SMALL = 0.1  # of what two seeds are apart
#: where the inner training begins, as sentences have it
INNER = {"uniform": "uniform", "other_seed": "another seed", "theta_star": "θ*"}


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's sentences, then ours."""
    return [*_distances(metrics), _noise(metrics), *_findings(metrics)]


def _small(metrics: Metrics, reached: Record) -> bool:
    return reached.settled_sum <= SMALL * metrics.null.other_seed_sum


def _settled(metrics: Metrics, reached: Record) -> bool:
    """Whether a distance can be judged: it is small already, or it has ceased to fall."""
    return _small(metrics, reached) or reached.converged == 1


def _distances(metrics: Metrics) -> list[Claim]:
    """Small: at most a tenth of what two seeds are apart."""
    null = metrics.null
    found = []
    for name, reached in metrics.inner_start.uniform.only(*STARTS).items():
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


def _noise(metrics: Metrics) -> Claim:
    """What the images from a random start look like, held against held-out images; undecided while still falling."""
    null, random = metrics.null, metrics.inner_start.uniform.random
    ended = random.converged == 1
    return Claim(
        "hidden-random-noise",
        "4.3 a, Fig. 1b",
        "From a random start the one-hidden net's reconstructions look like random noise.",
        "noise (visual)",
        f"nearest training image {random.nn_train_l2:.1f} away" + ("" if ended else "; still falling: undecided"),
        f"held-out images: {null.held_out_nn_l2:.1f}",
        verdict(random.nn_train_l2 > null.held_out_nn_l2) if ended else "undecided",
        value=random.nn_train_l2,
        null_value=null.held_out_nn_l2,
        margin=random.nn_train_l2 - null.held_out_nn_l2,
    )


def _findings(metrics: Metrics) -> list[Claim]:
    """What the distance sees beside the images: where the inner problem starts, and the order of the units."""
    null, inner = metrics.null, metrics.inner_start
    informed = _small(metrics, inner.theta_star.random)
    blind = not any(_small(metrics, found.random) for found in (inner.uniform, inner.other_seed))
    aligned = null.other_seed_aligned_sum
    nearer = aligned < inner.theta_star.random.settled_sum
    decided = all(_settled(metrics, found.random) for found in inner.only(*INNER_STARTS).values())
    return [
        Claim(
            "hidden-inner-start-decides",
            "",
            "With the inner problem started at the released θ* the distance from a random start falls far below that "
            "of two seeds; from a θ⁰ of the adversary's own it does not.  Two seeds whose units are renumbered are "
            "nearer still.",
            "",
            "random start: "
            + ", ".join(
                f"{found.random.settled_sum:.3g} from {INNER[name]}"
                for name, found in inner.only(*INNER_STARTS).items()
            )
            + "; partition start: "
            + ", ".join(
                f"{found.partition.settled_sum:.3g} from {INNER[name]}"
                + ("" if found.partition.converged == 1 else " (still falling)")
                for name, found in inner.only(*INNER_STARTS).items()
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


FIGURES = {"starts": plot_starts}
