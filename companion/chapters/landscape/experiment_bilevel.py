"""Chapter 5, the bilevel landscape: the affine net from 25 starts a seed, and curves between
solutions.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import affine_trained
from companion.chapters.landscape.shared import (
    DIFFERENT,
    EVERY,
    LAMBDAS,
    SETS,
    SIDE,
    WEIGHT_DECAY,
    SeedImages,
    Sizes,
    bilevel_ends,
)
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.analysis.landscape import in_span
from recon.analysis.walk import Walk, constants, solution_set, sufficient, walk
from recon.optim.subspace import Subspace

# walks: without bounds, in [0, 1]
FREE = ("to_partition", "to_random")
BOXED = ("box_partition", "box_random")


class Metrics(Record):
    """`landscape-bilevel`. converged: share of runs below the tolerance · null_distance_to_truth:
    of held-out images.

    distance: Of the end points to their neighbours in each set of images that the starts are mixed
    from, by SSIM · start_distance: of the starts · cells_converged: whether the
    run from there converged. connection: Walks between two training sets of one classifier:
    without bounds from the truth to the attack's ends from partition and noise; with pixels in
    [0, 1] from the truth to the set nearest to the partition, and from there to the one
    nearest to noise. n: images of each set · level: nω‖θ*‖²; sufficient: above this the theorem
    holds, `recon.analysis.walk`. connection.to_partition: error: highest ‖θ(X_t) − θ*‖/‖θ*‖ after
    training on a frame from scratch; straight_error: the same on the straight segment ·
    largest_step: between neighbouring frames, relative to the segment's; largest_double_step:
    between every other frame, half of it where there is a jump.
    """


@dataclass(frozen=True, kw_only=True)
class BilevelSizes(Sizes):
    """
    Attributes:
        walk_n, walk_points, walk_steps: images of the walk between training sets, frames of each of
            its legs (odd), of the attack that makes its ends without bounds.
    """

    walk_n: int
    walk_points: int
    walk_steps: int = 1500


SIZES = {
    "smoke": BilevelSizes(n_train=10, steps=100, walk_n=40, walk_points=5, walk_steps=100),
    "laptop": BilevelSizes(n_train=40, steps=1500, walk_n=100, walk_points=13),
    "paper": BilevelSizes(n_train=100, steps=8000, walk_n=500, walk_points=41),
}

SHOWN = 8  # images of the walk that a result keeps of every frame


def compute(sizes: BilevelSizes, context: Context) -> Outcome[Metrics]:
    """25 starts of the affine net, and the walk between training sets."""
    names = ["seed-0", "walk"]
    units = context.sweep(partial(_task, sizes, context), names, label="landscape")
    run, walked = (units[name] for name in names)
    # [i][j] is the start with λ₁[i], λ₂[j]
    null = run.pop("null").item()
    grid = {key: value.double().view(SIDE, SIDE).tolist() for key, value in run.items()}
    metrics = Metrics(
        n_train=len(SeedImages.drawn(context, sizes.n_train, torch.float32)),
        lambda1=list(LAMBDAS),
        converged=run["converged"].double().mean().item(),
        null_distance_to_truth=null,
        distance={name: grid[name] for name in SETS},
        start_distance={name: grid[f"start_{name}"] for name in SETS},
        cells_converged=grid["converged"],
        connection=unpacked(walked),
    )
    return Outcome(metrics, {key: tensor for key, tensor in walked.items() if key != "json"})


def _task(sizes: BilevelSizes, context: Context, name: str) -> Tensors:
    """One run of the sweep: the landscape or the walk."""
    if name == "walk":
        return walk_run(sizes, context)
    return bilevel_run(SeedImages.drawn(context, sizes.n_train, torch.float64), sizes.steps)


def bilevel_run(images: SeedImages, steps: int) -> Tensors:
    """All starts: the affine net's bilevel problem, in the span of everything that
    occurs.
    """
    starts = images.starts()[DIFFERENT]
    result = bilevel_ends(affine_trained(images.train, images.y, WEIGHT_DECAY), starts, steps)
    begun = {f"start_{key}": value for key, value in images.distances(starts).items()}
    rows = {**images.distances(result.x_hat), **begun, "converged": result.converged}
    return {key: value[EVERY] for key, value in rows.items()} | {"null": images.null_distance()}


def walk_run(sizes: BilevelSizes, context: Context) -> Tensors:
    """Training sets of one classifier, frame by frame: without bounds from the truth to where the
    attack ends from the partition and from noise; with pixels in [0, 1] from the truth to the set
    nearest to the partition, and on to the one nearest to noise.
    """
    images = SeedImages.drawn(context, sizes.walk_n, torch.float64)
    released = affine_trained(images.train, images.y, WEIGHT_DECAY)
    n = len(images.y)
    theta = released.theta_star
    points = sizes.walk_points
    starts = torch.stack([images.init, images.random])
    space = Subspace.spanned_by(*images.sets().values(), theta[None, :-1])
    small = in_span(released, space) if len(space) < len(theta) - 1 else released
    inside = space.reduce if small is not released else torch.nn.Identity()
    ends = bilevel_ends(released, starts, sizes.walk_steps).x_hat
    free = [solution_set(small).project(inside(end)).x for end in ends]
    walks = [walk(small, inside(images.train), end, points) for end in free]
    box = (0.0, 1.0)
    rows = slice(0, SHOWN * (n // SHOWN), max(1, n // SHOWN))
    solutions = solution_set(released, box)
    stations = [images.train, *(solutions.project(start).x for start in starts)]
    walks += [walk(released, *pair, points, box, rows) for pair in pairwise(stations)]
    by_name = dict(zip((*FREE, *BOXED), walks, strict=True))
    level, balance = constants(released)
    enough = {"level": level, "sufficient": sufficient(images.y, balance)}
    made = packed(Record(n=n, **enough, **{name: _route(way) for name, way in by_name.items()}))
    for name in BOXED:
        made[f"walk_{name}_frames"] = by_name[name].frames.float()
        made[f"walk_{name}_error"] = by_name[name].error
    return made


def _route(route: Walk) -> Record:
    return Record(
        error=route.error.max().item(),
        straight_error=route.straight.max().item(),
        largest_step=route.step,
        largest_double_step=route.coarse,
    )
