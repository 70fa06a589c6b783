"""Chapter 4: bilevel reconstruction of the one-hidden-layer net, eq. (9), and what Table 1's average can mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from recon.attacks.bilevel import BilevelAttack, GaussNewton, LBFGSInner, outer_energy
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.bilevel_common import BOX, STARTS, Reconstructed, image_null, measured, start_of
from recon.chapters.bilevel_hidden.metrics import (
    AtDecay,
    ByInnerStart,
    ByStart,
    MeanReconstructed,
    Metrics,
    Null,
    NullAtWidth,
)
from recon.chapters.bilevel_hidden.sizes import Sizes
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, one_hidden
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner import INNER, InnerSolution, Objective, solve_lbfgs

INNER_STARTS = ("uniform", "theta_star")


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every weight decay in turn; the first is reported at top level, with the inner start of the paper (uniform)."""
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    images = Bundle.of(data, context.device, torch.float32, centred=False)
    by_decay = {decay: _runs(sizes, context, images, decay) for decay in sizes.weight_decays}
    runs = by_decay[sizes.weight_decays[0]]
    main = runs.metrics
    metrics = Metrics(
        n_train=len(data.train),
        width=sizes.width,
        n_params=one_hidden(sizes.width, images.train.shape[1]).n_params,
        seeds=sizes.seeds,
        null_by_width={width: _null_at_width(sizes, context, images, width) for width in sizes.null_widths},
        weight_decay=main.weight_decay,
        **main.uniform.starts(),
        inner_start=ByInnerStart(**main.inner_starts()),
        null=main.null,
        weight_decays={decay: each.metrics for decay, each in by_decay.items()},
    )
    arrays: Tensors = {
        "x_train": images.train,
        "x_partition": images.init,
        "x_held_out": images.held_out[:40],
        "energy": runs.found.history,
        "train_index": data.train.index,
        "partition_index": data.init.index,
    }
    for inner in INNER_STARTS:
        for start in STARTS:
            row = min(runs.rows(inner, start), key=lambda k: runs.found.energy[k])  # chosen by the attack's own energy
            suffix = start if inner == "uniform" else f"{start}_from_theta_star"
            arrays[f"x_hat_{suffix}"] = runs.found.x_hat[row]
            arrays[f"x_init_{suffix}"] = runs.x_init[row]
    return Outcome(metrics, arrays)


# ---------------------------------------------------------------------------------------- all runs at one decay


@dataclass(frozen=True)
class Run:
    """One row of the batch."""

    inner: str
    start: str
    seed: int


@dataclass(frozen=True)
class Runs:
    """Inner starts × starts × seeds at one weight decay, one batch: what was measured, and the batch itself."""

    plan: list[Run]
    x_init: Tensor
    found: Reconstruction
    metrics: AtDecay

    def rows(self, inner: str, start: str) -> list[int]:
        """Of all seeds."""
        return _rows(self.plan, inner, start)


def _rows(plan: list[Run], inner: str, start: str) -> list[int]:
    return [k for k, run in enumerate(plan) if (run.inner, run.start) == (inner, start)]


def _runs(sizes: Sizes, context: Context, images: Bundle, weight_decay: float) -> Runs:
    """All on the run's images: these seeds are of starts and weights, for the null is two networks that share their
    data."""
    objective = Objective(one_hidden(sizes.width, images.train.shape[1]), images.y, weight_decay)
    seeds = range(sizes.seeds)
    trained = _trained(objective, images.train, seeds, sizes, context)
    plan = [Run(inner, start, seed) for inner in INNER_STARTS for start in STARTS for seed in seeds]
    uniform = _weights(objective.network, "uniform", context, "hidden.inner_start", seeds)
    theta_0 = {"uniform": uniform, "theta_star": trained.theta}
    theta_star = torch.stack([trained.theta[run.seed] for run in plan])
    x_init = torch.stack([start_of(images, run.start, context.stream("hidden.start", run.seed)) for run in plan])
    attack = BilevelAttack(
        Weights(objective.network, theta_star, y=images.y, weight_decay=weight_decay),
        LBFGSInner(torch.stack([theta_0[run.inner][run.seed] for run in plan]), sizes.inner_first, sizes.inner_next),
        GaussNewton(),
        HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol, box=BOX),
    )
    checkpoint = context.checkpoints.at(f"hidden-{weight_decay}")
    found = reconstruct(attack, x_init, sizes.steps, sizes.tol, checkpoint)
    reached = [
        measured(found.x_hat[k], x_init[k], images, found.energy[k].item(), theta_star[k]) for k in range(len(plan))
    ]

    def over_seeds(inner: str) -> ByStart:
        return ByStart(**{start: mean_and_sd([reached[k] for k in _rows(plan, inner, start)]) for start in STARTS})

    metrics = AtDecay(
        uniform=over_seeds("uniform"),
        theta_star=over_seeds("theta_star"),
        weight_decay=weight_decay,
        train_grad_norm=trained.grad_norm.max().item(),
        null=_null(objective, trained.theta, images, sizes, context),
    )
    return Runs(plan, x_init, found, metrics)


def _weights(network: MLP, scheme: str, context: Context, stream: str, seeds: Sequence[int]) -> Tensor:
    """Initial weights (S, p) of each seed."""
    drawn = [network.flatten(network.init(context.stream(stream, seed), scheme)) for seed in seeds]
    return torch.stack(drawn).to(context.device)


def _trained(objective: Objective, x: Tensor, seeds: Sequence[int], sizes: Sizes, context: Context) -> InnerSolution:
    """A network per seed on images x (n, d), to the minimum."""
    theta_init = _weights(objective.network, "default", context, "hidden.weights", seeds)
    return solve_lbfgs(
        objective, x.expand(len(seeds), -1, -1), theta_init, replace(INNER, tol=1e-6, max_iter=sizes.train_iterations)
    )


def mean_and_sd(rows: list[Reconstructed]) -> MeanReconstructed:
    """Of every field, over seeds."""
    table = {
        each.name: torch.tensor([getattr(row, each.name) for row in rows], dtype=torch.float64)
        for each in fields(Reconstructed)
    }
    means = {name: values.mean().item() for name, values in table.items()}
    return MeanReconstructed(**means, **{f"{name}_sd": values.std().item() for name, values in table.items()})


# ------------------------------------------------------------------------------------------------------- nulls


def _null(objective: Objective, theta_star: Tensor, images: Bundle, sizes: Sizes, context: Context) -> Null:
    """How far networks are apart that nobody attacked: θ* (S, p) of all seeds, and those trained on other data."""
    network, seeds = objective.network, range(sizes.seeds)
    elsewhere = Objective(network, images.held_out_y, objective.weight_decay)
    other_data = _trained(elsewhere, images.held_out, seeds, sizes, context).theta
    pairs = [(theta_star[a], theta_star[b]) for a, b in combinations(seeds, 2)]
    apart = _mean([outer_energy(a, b).item() for a, b in pairs])
    return Null(
        **vars(image_null(images)),
        other_seed_sum=apart,
        other_seed_mean=apart / network.n_params,
        other_seed_aligned_sum=_mean([aligned_distance(network, a, b) for a, b in pairs]),
        other_data_sum=_mean([outer_energy(theta_star[s], other_data[s]).item() for s in seeds]),
        zero_sum=theta_star.square().sum(-1).mean().item(),
    )


def _null_at_width(sizes: Sizes, context: Context, images: Bundle, width: int) -> NullAtWidth:
    """Two seeds, the first weight decay."""
    network = one_hidden(width, images.train.shape[1])
    objective = Objective(network, images.y, sizes.weight_decays[0])
    theta = _trained(objective, images.train, (0, 1), sizes, context).theta
    total = outer_energy(theta[0], theta[1]).item()
    return NullAtWidth(other_seed_sum=total, other_seed_mean=total / network.n_params)


def aligned_distance(network: MLP, theta: Tensor, theta_star: Tensor) -> float:
    """‖θ* − Pθ‖² minimised over permutations P of the hidden units: the same function has width! parameter vectors."""

    def units(vector: Tensor) -> Tensor:
        params = network.unflatten(vector)
        return torch.cat([params["w1"], params["b1"][:, None], params["w2"].mT], dim=1)

    a, b = units(theta), units(theta_star)
    cost = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.mT).cpu()
    rows, columns = linear_sum_assignment(cost.numpy())
    rest = (theta[-1] - theta_star[-1]).square()
    return (cost[rows, columns].sum() + rest.cpu()).item()


def _mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())
