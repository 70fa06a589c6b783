"""Chapter 5, the bilevel landscape: the affine net from 25 starts a seed, a fine map, and curves between solutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.landscape.distances import set_distances
from companion.chapters.landscape.shared import (
    PER_SEED,
    Problem,
    SeedImages,
    Sizes,
    affine_released,
    different,
    measure,
    summarise,
)
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.analysis.landscape import bilevel_energy, in_span, mixed_starts, stationarity_energy, sweep_bilevel
from recon.analysis.level_set import Walk, balance, level, solution_set, sufficient, walk
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace


def free(found: Record) -> list[Record]:
    """Without bounds."""
    return [found.to_partition, found.to_random]


def boxed(found: Record) -> list[Record]:
    """With pixels in [0, 1]."""
    return [found.box_partition, found.box_random]


def routes(found: Record) -> dict[str, Record]:
    """All four by what a page calls them."""
    return {
        "truth → end from the partition": found.to_partition,
        "truth → end from noise": found.to_random,
        "truth → partition, in [0, 1]": found.box_partition,
        "partition → noise, in [0, 1]": found.box_random,
    }


class Metrics(Record):
    """`landscape-bilevel`. converged: share of runs below the tolerance · steps: of each seed · null_distance_to_truth:
    of held-out images.

    One method from all starts. distance: of the end points to their neighbours in each set, by SSIM; l2: by L2 ·
    start_distance: of where it begins · energy: at the ends, relative; start_energy: at the starts · sd: over seeds
    · cells_converged: share of seeds whose run from there converged.
    distance: Of each set of images that the starts are mixed from.
    crossing: Truth and partition along λ₁ at λ₂ = 1, truth and noise along λ₂ at λ₁ = 1.
    crossing.truth_partition: λ at which the truth becomes nearer than another set: per seed, None where it does
    not; mean and standard deviation, None unless it does in all seeds.
    geometry: The landscape itself, energies relative to that of noise. barrier: how far a straight segment between
    two end points rises above the higher of them · variation, minima: of the energy along the line from the truth
    to the partition, or to noise: total variation over range, inner minima.
    geometry.curvature: Mean second difference of the energy at the ends from truth, partition and noise, relative
    to that of noise.
    connection: Without bounds from the truth to the attack's ends from partition and noise; with pixels in [0, 1]
    from the truth to the set nearest to the partition, and from there to the one nearest to noise. n: images of
    each set · level: nω‖θ*‖²; sufficient: above this the theorem holds, `recon.analysis.level_set`.
    connection.to_partition: A walk between two training sets of one classifier. frames: how many · error: highest
    ‖θ(X_t) − θ*‖/‖θ*‖ after training on a frame from scratch; straight_error: the same on the straight segment ·
    largest_step: between neighbouring frames, relative to the segment's; largest_double_step: between every other
    frame, half of it where there is a jump · length: relative to the segment · lowest_pixel, highest_pixel: without
    bounds, coordinates · solved: whether every frame was found.
    """


@dataclass(frozen=True, kw_only=True)
class BilevelSizes(Sizes):
    """fine, fine_steps: points per axis of the fine map · walk_n, walk_points, walk_steps: images of the walk between
    training sets, frames of each of its legs (odd), of the attack that makes its ends without bounds."""

    walk_n: int
    walk_points: int
    walk_steps: int = 1500
    fine: int = 21
    fine_steps: int = 600


SIZES = {
    "smoke": BilevelSizes(
        n_train=10,
        seeds=2,
        steps=100,
        walk_n=40,
        walk_points=5,
        walk_steps=100,
        fine=5,
        fine_steps=30,
        pairs=4,
        points=5,
        line_points=11,
    ),
    "laptop": BilevelSizes(n_train=40, seeds=1, steps=1500, walk_n=100, walk_points=13, fine=15),
    "paper": BilevelSizes(n_train=100, seeds=1, steps=8000, walk_n=500, walk_points=41),
}


ROUTES = ("to_partition", "to_random", "box_partition", "box_random")


SHOWN = 8  # images of the walk that a result keeps of every frame


def compute(sizes: BilevelSizes, context: Context) -> Outcome[Metrics]:
    """25 starts × seeds of the affine net, the fine map, and the walk between training sets."""
    names = [f"seed-{seed}" for seed in range(sizes.seeds)]
    found = context.sweep(partial(_task, sizes, context), [*names, "fine", "walk"], label="landscape")
    runs, fine, walked = [found[name] for name in names], found["fine"], found["walk"]
    metrics = Metrics(
        **flat(summarise(runs, sizes.lambdas)),
        n_train=len(SeedImages.of(context, sizes, 0, torch.float32).truth),
        lambda1=list(sizes.lambdas),
        lambda2=list(sizes.lambdas),
        seeds=sizes.seeds,
        converged=torch.stack([run["converged"] for run in runs]).double().mean().item(),
        steps=[int(run["steps"]) for run in runs],
        null_distance_to_truth=torch.stack([run["null"] for run in runs]).mean().item(),
        connection=_connections(walked),
    )
    arrays = {f"fine_{key}": value for key, value in fine.items()}
    arrays |= {key: torch.stack([run[key] for run in runs]) for key in PER_SEED}
    arrays |= {f"walk_{key}": value for key, value in walked.items()}
    return Outcome(metrics, arrays)


def _task(sizes: BilevelSizes, context: Context, name: str) -> Tensors:
    """One run of the sweep: "seed-K", "fine" or "walk"."""
    if name == "walk":
        return walk_run(sizes, context)
    return fine_run(sizes, context) if name == "fine" else bilevel_run(sizes, context, int(name.removeprefix("seed-")))


def bilevel_run(sizes: Sizes, context: Context, seed: int) -> Tensors:
    """All starts of one seed: the affine net's bilevel problem, in the span of everything that occurs."""
    images = SeedImages.of(context, sizes, seed, torch.float64)
    released = affine_released(images, sizes)
    starts, every = different(images.starts(sizes.lambdas), sizes.lambdas)
    found = sweep_bilevel(released, starts, sizes.steps, descent_of(sizes))
    problem = Problem(images, torch.zeros_like(images.truth[0]), partial(bilevel_energy, released))
    size = released.theta_star.square().sum()
    x_hat, starts = found.x_hat[every], starts[every]
    measured = measure(problem, x_hat, starts, found.energy[every] / size, sizes, seed)
    measured |= {
        f"start_{key}": value for key, value in set_distances(starts.float(), images.sets(), images.shape).items()
    }
    measured |= {"converged": found.converged[every], "steps": torch.tensor(found.steps)}
    return measured | {"null": images.null_distance()}


def descent_of(sizes: Sizes) -> HeavyBall:
    """That of chapter 3, without its pixel box."""
    return HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol)


def walk_run(sizes: BilevelSizes, context: Context) -> Tensors:
    """Training sets of one classifier, frame by frame: without bounds from the truth to where the attack ends from the
    partition and from noise; with pixels in [0, 1] from the truth to the set nearest to the partition, and on to the
    one nearest to noise."""
    images = SeedImages.of(context, replace(sizes, n_train=sizes.walk_n), 0, torch.float64)
    released = affine_released(images, sizes)
    n, theta = len(images.y), released.theta_star
    starts = torch.stack([images.partition, images.random])
    space = Subspace.spanned_by(*images.sets().values(), theta[None, :-1])
    small = in_span(released, space) if len(space) < len(theta) - 1 else released
    inside = space.reduce if small is not released else torch.nn.Identity()
    ends = sweep_bilevel(released, starts, sizes.walk_steps, descent_of(sizes)).x_hat
    found: Tensors = {}
    for name, end in zip(("to_partition", "to_random"), ends, strict=True):
        exact = solution_set(small).project(inside(end)).x
        found |= _named(name, walk(small, inside(images.truth), exact, sizes.walk_points))
    box, shown = (0.0, 1.0), slice(0, SHOWN * (n // SHOWN), max(1, n // SHOWN))
    solutions = solution_set(released, box)
    stations = [images.truth, *(solutions.project(start).x for start in starts)]
    for k, name in enumerate(("box_partition", "box_random")):
        found |= _named(name, walk(released, stations[k], stations[k + 1], sizes.walk_points, box, shown))
    constants = [n, level(theta, sizes.weight_decay, n), sufficient(images.y, balance(theta, sizes.weight_decay, n))]
    return found | {"level": torch.tensor(constants, dtype=torch.float64)}


def _named(name: str, found: Walk) -> Tensors:
    """A walk as tensors."""
    numbers = (found.step, found.coarse, found.length, found.lowest, found.highest, float(found.solved))
    kept = {f"{name}_error": found.error, f"{name}_straight": found.straight}
    kept |= {f"{name}_numbers": torch.tensor(numbers, dtype=torch.float64)}
    return kept | ({f"{name}_frames": found.frames.float()} if found.frames.shape[1] else {})


def _connections(walked: Tensors) -> Record:
    def route(name: str) -> Record:
        step, coarse, length, lowest, highest, solved = walked[f"{name}_numbers"].tolist()
        return Record(
            frames=len(walked[f"{name}_error"]),
            error=walked[f"{name}_error"].max().item(),
            straight_error=walked[f"{name}_straight"].max().item(),
            largest_step=step,
            largest_double_step=coarse,
            length=length,
            lowest_pixel=lowest,
            highest_pixel=highest,
            solved=bool(solved),
        )

    n, height, enough = walked["level"].tolist()
    return Record(n=int(n), level=height, sufficient=enough, **{name: route(name) for name in ROUTES})


def fine_run(sizes: BilevelSizes, context: Context) -> Tensors:
    """The affine net's starts on a fine grid, seed 0: energies before and after, and L2-nearest distances."""
    images = SeedImages.of(context, sizes, 0, torch.float64)
    released = affine_released(images, sizes)
    sets = images.sets()
    space = Subspace.spanned_by(*sets.values(), released.theta_star[None, :-1])
    small, places = in_span(released, space), {name: space.reduce(members) for name, members in sets.items()}
    grid = torch.linspace(0, 1, sizes.fine)
    starts = mixed_starts(places["truth"], places["partition"], places["random"], grid, grid).flatten(0, 1)
    found = sweep_bilevel(small, starts, sizes.fine_steps, descent_of(sizes))
    size = released.theta_star.square().sum()
    tensors = {"grid": grid, "energy": found.energy / size, "start_energy": bilevel_energy(small, starts)}
    tensors["moved"] = (found.x_hat - starts).norm(dim=-1).mean(-1)
    for name, members in places.items():
        tensors[name] = torch.cdist(found.x_hat, members.expand(len(starts), -1, -1)).amin(-1).mean(-1)
        tensors[f"start_{name}"] = torch.cdist(starts, members.expand(len(starts), -1, -1)).amin(-1).mean(-1)
    same = stationarity_energy(small.network, small.theta_star, starts, images.y)
    return {**tensors, "stationarity_start_energy": same}
