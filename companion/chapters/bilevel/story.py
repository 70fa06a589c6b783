"""§4.3's sentences on the affine net, whose thresholds are the null baselines or the paper's own
values; on the one-hidden net, and our findings on the distance of Table 1.

The one-hidden net's distances are those after the inner solver has settled. A run that is still
falling is not judged: "undecided" where a sentence needs it.
"""

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.base import Tensors
from companion.chapters.bilevel.common import PAPER_AFFINE, PAPER_HIDDEN, STARTS
from companion.chapters.bilevel.experiment_affine import Metrics as AffineMetrics
from companion.chapters.bilevel.experiment_affine import Sizes as AffineSizes
from companion.chapters.bilevel.experiment_hidden import (
    ALIKE,
    INNER_STARTS,
    Metrics,
    PathMetrics,
    PathSizes,
    Sizes,
)
from companion.chapters.bilevel.experiment_shared import Metrics as SharedMetrics
from companion.chapters.bilevel.experiment_shared import Sizes as SharedSizes
from companion.chapters.claims import claim
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.record import Record
from companion.store.results import Claim, Result, graded, orders_below, verdict
from recon.scoring.metrics import l2

FLAT = 0.1  # of the slope of photographs' spectrum
SMALL = 0.1  # of what two seeds are apart, or of what training adds to a start
OWN = 0.95  # of the images from the partition
# share of the distance to the released weights that has gone while images look like their start
FALLEN = 0.25
UNDECIDED = "; still falling: undecided"
LABELS = {"random": "(a) from noise", "truth": "(b) from truth", "partition": "(c) from others"}
PATHS = {"truth": "x_train", "partition": "x_partition"}  # start -> where its images lie
NULL = ("baseline:\nheld-out image", "null", "baseline")  # a row: label, name, frame


def claims(metrics: AffineMetrics, _: AffineSizes) -> list[Claim]:
    """A distance for each start, and what the images look like."""
    null = metrics.null
    truth = metrics.truth
    partition = metrics.partition
    margin = partition.nn_train_l2 - 0.9 * null.held_out_nn_l2
    return [
        *(_affine_distance(metrics, name) for name in STARTS),
        *_noise("affine-random-noise", metrics, metrics.random),
        claim(
            "affine-truth-perfect",
            metrics,
            verdict=verdict(truth.nn_train_l2 <= 1e-3),
            value=truth.nn_train_l2,
            null_value=null.held_out_nn_l2,
        ),
        claim(
            "affine-partition-is-start",
            metrics,
            verdict=verdict(partition.nearer_to_partition == 1.0 and margin >= 0),
            value=partition.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=margin,
        ),
    ]


def _affine_distance(metrics: AffineMetrics, start: str) -> Claim:
    """At most the paper's own."""
    end = metrics[start]
    null = metrics.null
    return claim(
        f"affine-distance-{start}",
        {"end": end, "null": null, "still": "" if end.converged else " (still falling)"},
        verdict=verdict(end.distance_sum <= PAPER_AFFINE[start]),
        value=end.distance_sum,
        null_value=null.other_data_sum,
        margin=orders_below(end.distance_sum, PAPER_AFFINE[start]),
    )


def _noise(name: str, metrics: Record, end: Record, ended: bool = True) -> list[Claim]:
    """Farther from the training images than held-out images are; and with a spectrum as flat as
    that of noise, which no blotch has: its slope at most a tenth of held-out images'. A run whose
    images were not kept has no slope, and is no image set of the claim.
    """
    if "slope" not in metrics:
        return []
    null = metrics.null
    slope = metrics.slope
    flat = slope.random / (FLAT * slope.held_out)
    margin = min(end.nn_train_l2 / null.held_out_nn_l2, 2 - flat) - 1
    return [
        claim(
            name,
            {"end": end, "null": null, "slope": slope, "so_far": "" if ended else UNDECIDED},
            verdict=verdict(margin > 0) if ended else "undecided",
            value=slope.random,
            null_value=slope.held_out,
            margin=margin,
        )
    ]


def hidden_claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's sentences on the distance and on noise, held against held-out images; then ours,
    on what the distance, small at a tenth of what two seeds are apart, sees beside the images.
    """
    null = metrics.null
    random = metrics.inner_start.uniform.random
    aligned = null.other_seed_aligned_sum
    apart = null.other_seed_sum
    return [
        _distance(metrics),
        *_noise("hidden-random-noise", metrics, random, random.converged == 1),
        _inner_start_decides(metrics),
        claim(
            "hidden-seeds-agree-up-to-order",
            null,
            verdict=graded(aligned <= 0.25 * apart, aligned <= 0.5 * apart),
            value=aligned,
            null_value=apart,
        ),
    ]


def _small(metrics: Metrics, reached: Record) -> bool:
    return reached.settled_sum <= SMALL * metrics.null.other_seed_sum


def _settled(metrics: Metrics, reached: Record) -> bool:
    """Whether a distance can be judged: it is small already, or it has ceased to fall."""
    return _small(metrics, reached) or reached.converged == 1


def _distance(metrics: Metrics) -> Claim:
    """Of Table 1's "average", which is not defined, two readings: a sum over the parameters, and a
    mean. "reproduced" where both are at most the paper's from every start, "not reproduced" where
    neither is; "undecided" where they differ, or may still fall.
    """
    null = metrics.null
    ends = metrics.inner_start.uniform
    sums = {name: ends[name].settled_sum for name in STARTS}
    means = {name: total / metrics.n_params for name, total in sums.items()}
    holds = [
        all(reading[name] <= PAPER_HIDDEN[name] for name in STARTS) for reading in (sums, means)
    ]
    falling = not all(_settled(metrics, ends[name]) for name in STARTS)
    open_ = holds[0] != holds[1] or (falling and not all(holds))
    return claim(
        "hidden-distance",
        {
            "sums": [*sums.values()],
            "means": [*means.values()],
            "null": null,
            "still": UNDECIDED if falling else "",
        },
        verdict="undecided" if open_ else verdict(all(holds)),
        value=max(sums.values()),
        null_value=null.other_seed_sum,
    )


def _inner_start_decides(metrics: Metrics) -> Claim:
    inner = metrics.inner_start
    aligned = metrics.null.other_seed_aligned_sum
    random = {name: start.random for name, start in inner.items()}
    informed, *others = (_small(metrics, random[name]) for name in reversed(INNER_STARTS))
    nearer = aligned < random["theta_star"].settled_sum
    decided = all(_settled(metrics, end) for end in random.values())
    still = {
        name: "" if start.partition.converged == 1 else " (still falling)"
        for name, start in inner.items()
    }
    judged = graded(nearer and informed and not any(others), informed or not any(others))
    return claim(
        "hidden-inner-start-decides",
        {**metrics, "still": still, "so_far": "" if decided else UNDECIDED},
        verdict=judged if decided else "undecided",
        value=random["theta_star"].settled_sum,
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
        judged = "reproduced"
        margin = end - ALIKE
        if margin < 0:
            judged = "depends on stopping" if fallen >= FALLEN else "not reproduced"
            margin = fallen - FALLEN
        claims.append(
            claim(
                name,
                {**metrics, "path": paths[0], "fallen": fallen, "last": end},
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
    random = metrics.starts.random
    partition = metrics.starts.partition
    worst = max(random.last_sum, partition.last_sum)
    left = max(end.last_sum / end.first_sum for end in (random, partition))
    small = orders_below(worst, SMALL * metrics.added_sum)
    work = orders_below(left, SMALL)
    stays = partition.own_start_is_nearest >= OWN and random.nn_train_l2 > metrics.held_out_nn_l2
    judged = "not reproduced" if not stays or small < 0 else "reproduced" if work >= 0 else "partly"
    return [
        claim(
            "hidden-shared-start",
            metrics,
            verdict=judged if random.converged and partition.converged else "undecided",
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


def evenly(images: Tensor) -> Tensor:
    """Eight of them (…, d), from the first to the last."""
    return images[torch.linspace(0, len(images) - 1, 8).round().long()]


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
    sets = [(f"{LABELS[start]}:\nresult", start, "recovered") for start in STARTS]
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
        group = [(f"{LABELS[start]}:\nbeginning", f"{start}.start", "none")]
        for name in ("alike", "end"):
            words = f"step {path[name].step}:\ndistance {path[name].distance_sum:.3g}"
            group.append((words, f"{start}.{name}", "recovered"))
        groups.append(group)
    return _with_nearest(result, [*groups, [NULL]])


def _with_nearest(result: Result[Any], groups: list[list[tuple[str, str, str]]]) -> Figure:
    """Groups of rows (label, name, frame); below the last of each its nearest training images."""
    rows = []
    titles: list[list[str]] = []
    for group in groups:
        last = group[-1][1]
        rows += [(label, result.figure(name), frame) for label, name, frame in group]
        rows += [("nearest\ntraining image", result.figure(f"{last}.train"), "training")]
        titles += [[]] * len(group) + [[f"{d:.1f}" for d in result.figure(f"{last}.l2")]]
    return image_rows(rows, titles)


FIGURES = {"starts": plot_starts}
