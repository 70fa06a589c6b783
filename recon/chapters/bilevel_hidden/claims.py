"""§4.3's sentences on the one-hidden net, and the finding on Table 1's average."""

from __future__ import annotations

from recon.chapters.bilevel_common import PAPER_HIDDEN
from recon.chapters.bilevel_hidden.metrics import Metrics
from recon.chapters.bilevel_hidden.sizes import Sizes
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's sentences, then ours."""
    return [*_distances(metrics), *_images(metrics), *_findings(metrics)]


def _distances(metrics: Metrics) -> list[Claim]:
    """Small: at most a tenth of what two seeds are apart."""
    null = metrics.null
    return [
        Claim(
            f"hidden-distance-{name}",
            "4.3, Table 1",
            f"The parameter distance from the {name} start remains small (θ⁰ uniform).",
            f"{PAPER_HIDDEN[name]:.2e}",
            f"sum {reached.distance_sum:.2g} ± {reached.distance_sum_sd:.1g}, mean per parameter "
            f"{reached.distance_mean:.1e}",
            f"another seed: sum {null.other_seed_sum:.2g}, mean {null.other_seed_mean:.1e}",
            verdict(reached.distance_sum <= 0.1 * null.other_seed_sum),
        )
        for name, reached in metrics.inner_start.uniform.starts().items()
    ]


def _images(metrics: Metrics) -> list[Claim]:
    """What they look like, held against held-out images."""
    null, uniform, informed = metrics.null, metrics.inner_start.uniform, metrics.inner_start.theta_star
    random, truth = uniform.random, uniform.truth
    held_out = f"held-out images: {null.held_out_nn_l2:.1f}"
    return [
        Claim(
            "hidden-random-noise",
            "4.3 a, Fig. 1b",
            "From a random start the one-hidden net's reconstructions look like random noise.",
            "noise (visual)",
            f"nearest training image {random.nn_train_l2:.1f} ± {random.nn_train_l2_sd:.1f} away",
            held_out,
            verdict(random.nn_train_l2 > null.held_out_nn_l2),
        ),
        Claim(
            "hidden-truth-resembles",
            "4.3 b, Fig. 2b",
            "From the ground truth even the one-hidden net recovers images resembling the training data.",
            "resembling (visual)",
            f"nearest training image {truth.nn_train_l2:.1f} against {null.held_out_nn_l2:.1f} for held-out images (θ⁰ "
            f"uniform), {informed.truth.nn_train_l2:.1g} from θ*",
            held_out,
            verdict(truth.nn_train_l2 < 0.5 * null.held_out_nn_l2),
        ),
        Claim(
            "hidden-partition-is-start",
            "4.3 c, Fig. 4",
            "From another partition the images used for the initialisation come back, not the training data.",
            "visual",
            f"{uniform.partition.nearer_to_partition:.0%} (θ⁰ uniform) and "
            f"{informed.partition.nearer_to_partition:.0%} (from θ*) nearer to the start partition",
            held_out,
            verdict(min(found.partition.nearer_to_partition for found in (uniform, informed)) >= 0.95),
        ),
    ]


def _findings(metrics: Metrics) -> list[Claim]:
    """What the average of Table 1 can mean."""
    null, uniform, informed = metrics.null, metrics.inner_start.uniform, metrics.inner_start.theta_star
    by_width = sorted(metrics.null_by_width.items())
    return [
        Claim(
            "hidden-average-is-null",
            "",
            f"At width {metrics.width}, Table 1's 6.1e-5 read as a mean per parameter is what two nets that share "
            "nothing but data are apart; the mean falls with the width, so this need not hold at the paper's 6144.",
            f"{PAPER_HIDDEN['random']:.2e}",
            f"{uniform.random.distance_mean:.1e} after solving from the random start",
            "two seeds, same data, by width: "
            + ", ".join(f"{width}: {each.other_seed_mean:.1e}" for width, each in by_width),
            "finding",
        ),
        Claim(
            "hidden-inner-start-decides",
            "",
            "With the inner problem started at the released θ* the distance falls far below the null; from a uniform "
            "θ⁰ it does not.",
            "",
            f"random start: {informed.random.distance_sum:.2g} from θ*, {uniform.random.distance_sum:.2g} from "
            f"uniform; partition start: {informed.partition.distance_sum:.2g} and "
            f"{uniform.partition.distance_sum:.2g}",
            f"θ = 0: {null.zero_sum:.2g}; another seed: {null.other_seed_sum:.2g}",
            "finding",
        ),
        Claim(
            "hidden-seeds-agree-up-to-order",
            "",
            "Two seeds on the same data differ mostly by the order of their hidden units, which ‖θ* − θ‖² cannot see.",
            "",
            f"{null.other_seed_aligned_sum:.2g} after the best renumbering",
            f"{null.other_seed_sum:.2g} as they are",
            "finding",
        ),
    ]
