"""§4.3's sentences on the affine net, whose thresholds are the null baselines or the paper's own
values; on the one-hidden net, and our findings on the distance of Table 1.

The one-hidden net's distances are those after the inner solver has settled. A run that is still
falling is not judged: "undecided" where a sentence needs it.
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.base import Tensors
from companion.chapters.bilevel.common import PAPER_AFFINE, STARTS
from companion.chapters.bilevel.experiment_affine import Metrics as AffineMetrics
from companion.chapters.bilevel.experiment_affine import Sizes as AffineSizes
from companion.chapters.bilevel.experiment_hidden import Metrics, PathMetrics, PathSizes, Sizes
from companion.chapters.bilevel.experiment_shared import Metrics as SharedMetrics
from companion.chapters.bilevel.experiment_shared import Sizes as SharedSizes
from companion.chapters.claims import claim
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.record import Record
from companion.store.results import Claim, Result, orders_below, verdict
from recon.scoring.metrics import l2

SMALL = 0.1  # of what two seeds are apart, or of what training adds to a start
OWN = 0.95  # of the images from the partition
# NCC with the start; share of the distance to the released weights that has gone meanwhile
ALIKE, FALLEN = 0.9, 0.25
#: where the inner training begins, as sentences have it
INNER = {"uniform": "uniform", "other_seed": "another seed", "theta_star": "θ*"}
LABELS = {"random": "(a) random", "truth": "(b) truth", "partition": "(c) partition"}
PATHS = {"truth": "x_train", "partition": "x_partition"}  # start -> where its images lie
NULL = ("null: held-out\nimage", "null", "none")  # a row: label, name, frame


def claims(metrics: AffineMetrics, _: AffineSizes) -> list[Claim]:
    """A distance for each start, and what the images look like."""
    null = metrics.null
    held_out = f"held-out images: {null.held_out_nn_l2:.1f}"
    partition = metrics.partition
    return [
        *_affine_distances(metrics),
        claim(
            "affine-random-noise",
            ours=f"nearest training image {metrics.random.nn_train_l2:.1f} away in L2",
            null=held_out,
            verdict=verdict(metrics.random.nn_train_l2 > null.held_out_nn_l2),
            value=metrics.random.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=metrics.random.nn_train_l2 - null.held_out_nn_l2,
        ),
        claim(
            "affine-truth-perfect",
            ours=(
                f"moved {metrics.truth.moved_l2:.1e} in L2"
                if metrics.truth.moved_l2
                else "moved 0 in L2"
            ),
            null=held_out,
            verdict=verdict(metrics.truth.nn_train_l2 <= 1e-3),
            value=metrics.truth.nn_train_l2,
            null_value=null.held_out_nn_l2,
        ),
        claim(
            "affine-partition-is-start",
            ours=(
                f"{partition.nearer_to_partition:.0%} nearer to the start partition; nearest"
                f" training image {partition.nn_train_l2:.1f} away"
            ),
            null=held_out,
            verdict=verdict(
                partition.nearer_to_partition == 1.0
                and partition.nn_train_l2 >= 0.9 * null.held_out_nn_l2
            ),
            value=partition.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=partition.nn_train_l2 - 0.9 * null.held_out_nn_l2,
        ),
    ]


def _affine_distances(metrics: AffineMetrics) -> list[Claim]:
    """At most the paper's own, for each start."""
    return [
        claim(
            f"affine-distance-{name}",
            ours=f"{reached.distance_sum:.1e}" + ("" if reached.converged else " (still falling)"),
            null=f"another data set: {metrics.null.other_data_sum:.2g}",
            verdict=verdict(reached.distance_sum <= PAPER_AFFINE[name]),
            value=reached.distance_sum,
            null_value=metrics.null.other_data_sum,
            margin=orders_below(reached.distance_sum, PAPER_AFFINE[name]),
        )
        for name, reached in metrics.only(*STARTS).items()
    ]


def hidden_claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's sentences on the distance, small at a tenth of what two seeds are apart, and on
    noise, held against held-out images; then ours, on what the distance sees beside the images.
    """
    null, random = metrics.null, metrics.inner_start.uniform.random
    ended = random.converged == 1
    return [
        *(_distance(metrics, name) for name in STARTS),
        claim(
            "hidden-random-noise",
            ours=f"nearest training image {random.nn_train_l2:.1f} away"
            + ("" if ended else "; still falling: undecided"),
            null=f"held-out images: {null.held_out_nn_l2:.1f}",
            verdict=verdict(random.nn_train_l2 > null.held_out_nn_l2) if ended else "undecided",
            value=random.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=random.nn_train_l2 - null.held_out_nn_l2,
        ),
        _inner_start_decides(metrics),
        claim(
            "hidden-seeds-agree-up-to-order",
            ours=f"{null.other_seed_aligned_sum:.2g} after the best renumbering",
            null=f"{null.other_seed_sum:.3g} as they are",
            verdict=_finding(
                *(
                    null.other_seed_aligned_sum <= share * null.other_seed_sum
                    for share in (0.25, 0.5)
                )
            ),
            value=null.other_seed_aligned_sum,
            null_value=null.other_seed_sum,
        ),
    ]


def _finding(holds: bool, in_part: bool) -> str:
    return "finding" if holds else "partly" if in_part else "not reproduced"


def _small(metrics: Metrics, reached: Record) -> bool:
    return reached.settled_sum <= SMALL * metrics.null.other_seed_sum


def _settled(metrics: Metrics, reached: Record) -> bool:
    """Whether a distance can be judged: it is small already, or it has ceased to fall."""
    return _small(metrics, reached) or reached.converged == 1


def _distance(metrics: Metrics, start: str) -> Claim:
    null, reached = metrics.null, metrics.inner_start.uniform[start]
    settled = _settled(metrics, reached)
    return claim(
        f"hidden-distance-{start}",
        ours=(
            f"sum {reached.settled_sum:.3g}, mean per parameter"
            f" {reached.settled_sum / metrics.n_params:.1e}"
        )
        + ("" if settled else f" (still falling after {reached.steps:.0f} steps)"),
        null=f"another seed: sum {null.other_seed_sum:.3g}, mean {null.other_seed_mean:.1e}",
        verdict=verdict(_small(metrics, reached)) if settled else "undecided",
        value=reached.settled_sum,
        null_value=null.other_seed_sum,
        margin=orders_below(reached.settled_sum, SMALL * null.other_seed_sum),
    )


def _inner_start_decides(metrics: Metrics) -> Claim:
    null, inner = metrics.null, metrics.inner_start
    informed = _small(metrics, inner.theta_star.random)
    blind = not any(_small(metrics, start.random) for start in (inner.uniform, inner.other_seed))
    aligned = null.other_seed_aligned_sum
    nearer = aligned < inner.theta_star.random.settled_sum
    decided = all(_settled(metrics, inner[name].random) for name in INNER)
    random = [f"{inner[name].random.settled_sum:.3g} from {words}" for name, words in INNER.items()]
    partition = [
        f"{end.settled_sum:.3g} from {words}" + ("" if end.converged == 1 else " (still falling)")
        for end, words in ((inner[name].partition, words) for name, words in INNER.items())
    ]
    return claim(
        "hidden-inner-start-decides",
        ours=f"random start: {', '.join(random)}; partition start: {', '.join(partition)}"
        + ("" if decided else "; still falling: undecided"),
        null=(
            f"θ = 0: {null.zero_sum:.3g}; another seed: {null.other_seed_sum:.3g}, renumbered"
            f" {aligned:.3g}"
        ),
        verdict=(
            _finding(nearer and informed and blind, informed or blind) if decided else "undecided"
        ),
        value=inner.theta_star.random.settled_sum,
        null_value=aligned,
    )


#: start -> what the claim has of the paper
PATH_CLAIMS = {"truth": "hidden-truth-resembles", "partition": "hidden-partition-is-start"}


def path_claims(metrics: PathMetrics, _: PathSizes) -> list[Claim]:
    """What Figs. 2b and 4 show, on the way and at the end: "reproduced" where the images are still
    those of the start at the end, "depends on stopping" where they are so until the distance to the
    released weights has fallen by at least `FALLEN`, and no longer; "not reproduced" where they are
    gone before. Alike: a mean NCC with the start of at least `ALIKE`.
    """
    claims = []
    for start, name in PATH_CLAIMS.items():
        paths = [by_start[start] for by_start in metrics.paths.values()]
        end = min(path.end.ncc_with_start for path in paths)
        fallen = min(1 - path.alike.settled_sum / path.first_sum for path in paths)
        alike, last = paths[0].alike, paths[0].end
        ours = (
            f"after {alike.step} steps of at most {metrics.relative_step:.0%} NCC with the start"
            f" {alike.ncc_with_start:.2f}, distance of the weights down by {fallen:.0%}; after"
            f" {last.step} steps NCC {end:.2f} from the less favourable inner start, nearest"
            f" training image {last.nn_train_l2:.1f} away"
        )
        judged = "reproduced"
        margin = end - ALIKE
        if end < ALIKE:
            judged = "depends on stopping" if fallen >= FALLEN else "not reproduced"
            margin = fallen - FALLEN
        claims.append(
            claim(
                name,
                ours=ours,
                null=f"held-out images: {metrics.held_out_nn_l2:.1f}",
                verdict=judged,
                value=end,
                null_value=ALIKE,
                margin=margin,
            )
        )
    return claims


def shared_claims(metrics: SharedMetrics, _: SharedSizes) -> list[Claim]:
    """Table 1 beside Figs. 1b and 4: "partly" where from noise and from other photographs the
    distance ends at a tenth of what training adds to θ⁰ or less, `OWN` of the photographs are
    nearest to their own start, and noise is farther from the training images than held-out images
    are; "reproduced" where the attack made it so: both distances end at a tenth of those before its
    first step. "undecided" while either is still falling.
    """
    starts, held_out = metrics.starts, metrics.held_out_nn_l2
    moved = (starts.random, starts.partition)
    worst, left = (
        max(end.last_sum for end in moved),
        max(end.last_sum / end.first_sum for end in moved),
    )
    small, work = orders_below(worst, SMALL * metrics.added_sum), orders_below(left, SMALL)
    ended = starts.random.converged and starts.partition.converged
    stays = starts.partition.own_start_is_nearest >= OWN and starts.random.nn_train_l2 > held_out
    judged = "not reproduced" if not stays or small < 0 else "reproduced" if work >= 0 else "partly"
    return [
        claim(
            "hidden-shared-start",
            ours=", ".join(f"{start} {starts[start].last_sum:.2g}" for start in STARTS)
            + f"; {starts.partition.own_start_is_nearest:.0%} of the photographs nearest to their"
            f" own start; from noise the nearest training image {starts.random.nn_train_l2:.1f}"
            " away",
            null=(
                f"images that nobody has attacked: random {starts.random.first_sum:.2g}, partition"
                f" {starts.partition.first_sum:.2g}; what training adds to θ⁰:"
                f" {metrics.added_sum:.3g}; held-out images: {held_out:.1f} away"
            ),
            verdict=judged if ended else "undecided",
            value=left,
            null_value=1.0,
            margin=min(small, work),
        )
    ]


def selected(_: Record, arrays: Tensors) -> Tensors:
    """Results of every start, and held-out images, the null, with their nearest training images."""
    images = {start: arrays[f"x_hat_{start}"][:8] for start in STARTS}
    images["null"] = evenly(arrays["x_held_out"])
    return beside_nearest(images, arrays["x_train"])


def path_selected(_: PathMetrics, arrays: Tensors) -> Tensors:
    """Starts, the last images that look like them, and ends and null with their nearest training
    images.
    """
    pictures = Tensors()
    compared = {"null": evenly(arrays["x_held_out"])}
    for start, of in PATHS.items():
        pictures |= {f"{start}.start": levels(evenly(arrays[of]))}
        pictures |= {f"{start}.alike": levels(evenly(arrays[f"alike_{start}_from_uniform"]))}
        compared |= {f"{start}.end": evenly(arrays[f"x_hat_{start}_from_uniform"])}
    return pictures | beside_nearest(compared, arrays["x_train"])


def evenly(images: Tensor, n: int = 8) -> Tensor:
    """n of them (…, d), from the first to the last."""
    return images[torch.linspace(0, len(images) - 1, n).round().long()]


def beside_nearest(images: Tensors, train: Tensor) -> Tensors:
    """Images (k, d) by name, the training images (n, d) nearest to them, and their L2 distances."""
    chosen = Tensors()
    for name, x in images.items():
        match = l2(x, train).min(1)
        chosen |= {name: levels(x), f"{name}.train": levels(train[match.indices])}
        chosen[f"{name}.l2"] = match.values
    return chosen


@photographs
def plot_starts(result: Result[Any]) -> Figure:
    """Figs. 1–4, either classifier: all three starts in one figure, the null below them: result
    above nearest training image.
    """
    sets = [(f"{LABELS[start]} start:\nresult", start, "black") for start in STARTS]
    return _with_nearest(result, [[row] for row in (*sets, NULL)])


@photographs
def plot_path_images(result: Result[PathMetrics]) -> Figure:
    """θ⁰ uniform: start, the last images that still look like it, and those at the end with the
    nearest training image and its L2 distance, from both starts; last, the null: held-out images
    and the training images nearest to them.
    """
    groups = []
    for start in PATHS:
        path = result.metrics.paths["uniform"][start]
        group = [(f"{LABELS[start]} start", f"{start}.start", "none")]
        for name in ("alike", "end"):
            words = f"step {path[name].step}:\ndistance {path[name].distance_sum:.3g}"
            group.append((words, f"{start}.{name}", "black"))
        groups.append(group)
    return _with_nearest(result, [*groups, [NULL]])


def _with_nearest(result: Result[Any], groups: list[list[tuple[str, str, str]]]) -> Figure:
    """Groups of rows (label, name, frame); below the last of each its nearest training images."""
    rows: list[tuple[str, Tensor, str]] = []
    titles: list[list[str]] = []
    for group in groups:
        last = group[-1][1]
        rows += [(label, result.figure(name), frame) for label, name, frame in group]
        rows += [("nearest\ntraining image", result.figure(f"{last}.train"), "grey")]
        titles += [[]] * len(group) + [[f"{d:.1f}" for d in result.figure(f"{last}.l2")]]
    return image_rows(rows, titles)


FIGURES = {"starts": plot_starts}
