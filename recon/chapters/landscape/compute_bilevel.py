"""Chapter 13, the bilevel landscape: the affine net from 25 starts a seed, a fine map, and curves between solutions."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from recon.analysis.basins import set_distances
from recon.analysis.connection import connection
from recon.analysis.landscape import (
    bilevel_energy,
    in_span,
    mixed_starts,
    stationarity_energy,
    sweep_bilevel,
)
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.landscape.metrics import BilevelMetrics, Connections, Route
from recon.chapters.landscape.shared import (
    PER_SEED,
    Problem,
    SeedImages,
    affine_released,
    corner_rows,
    measure,
    summarise,
)
from recon.chapters.landscape.sizes import Sizes
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights

CONNECTION = ("straight_partition", "straight_random", "curve_partition", "curve_random")


def compute(sizes: Sizes, context: Context) -> Outcome[BilevelMetrics]:
    """25 starts × seeds of the affine net, and the fine map."""
    names = [f"seed-{seed}" for seed in range(sizes.seeds)]
    found = context.sweep(partial(_task, sizes, context), [*names, "fine"], label="landscape")
    runs, fine = [found[name] for name in names], found["fine"]
    metrics = BilevelMetrics(
        **vars(summarise(runs, sizes.lambdas)),
        n_train=len(SeedImages.of(context, sizes, 0, torch.float32).truth),
        lambda1=list(sizes.lambdas),
        lambda2=list(sizes.lambdas),
        seeds=sizes.seeds,
        converged=torch.stack([run["converged"] for run in runs]).double().mean().item(),
        steps=[int(run["steps"]) for run in runs],
        null_distance_to_truth=torch.stack([run["null"] for run in runs]).mean().item(),
        connection=Connections(partition=_route(runs, "partition"), random=_route(runs, "random")),
    )
    arrays = {f"fine_{key}": value for key, value in fine.items()}
    arrays |= {key: torch.stack([run[key] for run in runs]) for key in (*PER_SEED, *CONNECTION)}
    return Outcome(metrics, arrays)


def _task(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One run of the sweep: "seed-K", or "fine"."""
    return fine_run(sizes, context) if name == "fine" else bilevel_run(sizes, context, int(name.removeprefix("seed-")))


def bilevel_run(sizes: Sizes, context: Context, seed: int) -> Tensors:
    """All starts of one seed: the affine net's bilevel problem, in the span of everything that occurs."""
    images = SeedImages.of(context, sizes, seed, torch.float64)
    released = affine_released(images, sizes)
    starts = images.starts(sizes.lambdas)
    found = sweep_bilevel(released, starts, sizes.steps, _descent(sizes))
    problem = Problem(images, torch.zeros_like(images.truth[0]), partial(bilevel_energy, released))
    size = released.theta_star.square().sum()
    measured = measure(problem, found.x_hat, starts, found.energy / size, sizes, seed)
    measured |= {
        f"start_{key}": value for key, value in set_distances(starts.float(), images.sets(), images.shape).items()
    }
    measured |= {"converged": found.converged, "steps": torch.tensor(found.steps)}
    measured |= {"null": images.null_distance()}
    return measured | _connections(released, images, found.x_hat, sizes)


def _descent(sizes: Sizes) -> HeavyBall:
    """That of chapter 3, without its pixel box."""
    return HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol)


def _connections(released: Weights, images: SeedImages, x_hat: Tensor, sizes: Sizes) -> Tensors:
    """From the truth to the end points of partition and noise: the straight segment, and its nearest points on the
    exact solution set (chapter 1), which is a curve at energy zero if neighbours stay neighbours."""
    found: Tensors = {}
    for name, row in zip(("partition", "random"), corner_rows(sizes)[1:], strict=True):
        between = connection(released, images.truth, x_hat[row], sizes.line_points)
        found |= {f"{key}_{name}": value for key, value in vars(between).items()}
    return found


def _route(runs: list[Tensors], name: str) -> Route:
    """The worst of all seeds."""

    def highest(kind: str) -> float:
        return max((run[f"{kind}_{name}"].max() / run["line_random"][-1]).item() for run in runs)

    return Route(
        straight=highest("straight"),
        curve=highest("curve"),
        nearest_points=all(bool(run[f"projected_{name}"]) for run in runs),
        largest_step=max(run[f"jump_{name}"].item() for run in runs),
        bend_l2=max(run[f"bend_{name}"].item() for run in runs),
    )


def fine_run(sizes: Sizes, context: Context) -> Tensors:
    """The affine net's starts on a fine grid, seed 0: energies before and after, and L2-nearest distances."""
    images = SeedImages.of(context, sizes, 0, torch.float64)
    released = affine_released(images, sizes)
    sets = images.sets()
    space = Subspace.spanned_by(*sets.values(), released.theta_star[None, :-1])
    small, places = in_span(released, space), {name: space.reduce(members) for name, members in sets.items()}
    grid = torch.linspace(0, 1, sizes.fine)
    starts = mixed_starts(places["truth"], places["partition"], places["random"], grid, grid).flatten(0, 1)
    found = sweep_bilevel(small, starts, sizes.fine_steps, _descent(sizes))
    size = released.theta_star.square().sum()
    tensors = {"grid": grid, "energy": found.energy / size, "start_energy": bilevel_energy(small, starts)}
    tensors["moved"] = (found.x_hat - starts).norm(dim=-1).mean(-1)
    for name, members in places.items():
        tensors[name] = torch.cdist(found.x_hat, members.expand(len(starts), -1, -1)).amin(-1).mean(-1)
        tensors[f"start_{name}"] = torch.cdist(starts, members.expand(len(starts), -1, -1)).amin(-1).mean(-1)
    same = stationarity_energy(small.network, small.theta_star, starts, images.y)
    return {**tensors, "stationarity_start_energy": same}
