"""Membership in a pool of candidates: KKT multipliers, shadow networks, and what costs nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.candidates.membership_baselines import common_margin, row_likeness, span_share
from companion.chapters.candidates.names import FREE, KKT, RECIPES, SHADOWED
from companion.store.record import Record
from recon.attacks.multipliers import KKTSystem, from_network, multipliers
from recon.attacks.separation import FirstLayer
from recon.images.partitions import centre
from recon.nets.mlp import MLP, three_layer
from recon.optim.rng import named
from recon.scoring.membership import intervals, lira, rmia
from recon.scoring.roc import auc, true_rate
from recon.training.kkt import KKTSettings, train_to_kkt
from recon.training.weight_decay import DecaySettings, train_with_decay

# ------------------------------------------------------------------------------------------------------ membership


class Metrics(Record):
    """All networks, each with a pool of `ratio` times as many other images; n_train: the largest number.

    cells: One network: recipe, n_train images, width · log_loss: natural logarithm of the training loss · left:
    what the pool leaves of θ*, and known_left of θ* − θ⁰ · scores: name -> how well it tells · coverage: share of
    the training images in the pool -> rates of the multipliers; empty where it was not tried · shadows: how many.
    cells.scores: A score of membership on one network: among as many other images as training images, and among ten
    times as many.
    cells.scores.few: Area under the ROC curve and true-positive rates at false-positive rates of 1 % and 0.1 %,
    each with the central 95 % of the bootstrap over images.
    cells.coverage: Area under the ROC curve and true-positive rates at false-positive rates of 1 % and 0.1 %, each
    with the central 95 % of the bootstrap over images.
    """

    def cell(self, recipe: str, shadows: bool = True) -> Record:
        """The first network of a recipe, of those with shadow networks if wanted."""
        return next(each for each in self.cells if each.recipe == recipe and (each.shadows > 0 or not shadows))


@dataclass(frozen=True, kw_only=True)
class MemberSizes:
    """Membership: (images, width) of the networks, each trained by every recipe · shadow_n: at this number of images
    shadow networks are trained, in so many `rounds` that each split the pool into sets of that size; the shares of the
    training images in the pool are tried there as well · ratio: other images for each training image · steps, decay:
    of training."""

    networks: tuple[tuple[int, int], ...]
    shadow_n: int
    rounds: int
    steps: int
    decay: DecaySettings = field(default_factory=lambda: DecaySettings(steps=400))
    ratio: int = 10
    coverage: tuple[float, ...] = (0.5, 0.2, 0.1)
    draws: int = 200


SIZES = {
    "smoke": MemberSizes(
        networks=((20, 64),), shadow_n=20, rounds=2, steps=60, decay=DecaySettings(steps=60), ratio=2, draws=50
    ),
    "laptop": MemberSizes(networks=((50, 200), (100, 200), (200, 100)), shadow_n=100, rounds=2, steps=300),
    "paper": MemberSizes(
        networks=((50, 1000), (100, 1000), (200, 1000), (400, 1000), (400, 200)), shadow_n=200, rounds=4, steps=600
    ),
}


@dataclass(frozen=True)
class Pool:
    """Candidates x (m, d), minus the training mean, y (m,) in {0, 1}, the n training images first."""

    x: Tensor
    y: Tensor
    n: int

    @property
    def member(self) -> np.ndarray:
        """(m,) bool."""
        return np.arange(len(self.x)) < self.n


@dataclass(frozen=True)
class Net:
    """theta_init, theta (p,) and the logarithm of the loss."""

    theta_init: Tensor
    theta: Tensor
    log_loss: float


def compute(sizes: MemberSizes, context: Context) -> Outcome[Metrics]:
    """Every recipe at every number of images."""
    cells, arrays = [], Tensors()
    for n, width in sizes.networks:
        pool = pool_of(n, sizes.ratio, context)
        for recipe in RECIPES:
            cell, scores = cell_of(recipe, pool, width, sizes, context)
            cells.append(cell)
            arrays |= {f"{recipe}, {n}, {width}: {name}": score for name, score in scores.items()}
    return Outcome(Metrics(n_train=max(cell.n_train for cell in cells), ratio=sizes.ratio, cells=cells), arrays)


def pool_of(n: int, ratio: int, context: Context) -> Pool:
    """The training images and `ratio` times as many others, drawn from the whole rest of the pool of images."""
    images = context.images(n)
    free = (~torch.isin(torch.from_numpy(context.pool.index), images.train_index)).nonzero()[:, 0]
    drawn = torch.randperm(len(free), generator=named(context.seed, "candidates.others", n))
    rows = free[drawn[: ratio * len(images)]].numpy()
    others = centre(context.pool.pixels(rows).flatten(1), images.mean)
    y = torch.cat([images.y, torch.from_numpy(context.pool.y[rows]).to(images.y)])
    return Pool(torch.cat([images.train, others]), y, len(images))


def cell_of(
    recipe: str, pool: Pool, width: int, sizes: MemberSizes, context: Context
) -> tuple[Record, dict[str, Tensor]]:
    """One network, all scores of its pool."""
    network = three_layer(width, pool.x.shape[1])
    net = trained(recipe, network, pool.x[: pool.n], pool.y[: pool.n], sizes, context.stream("kkt.weights"))
    problem, known = (problem_of(network, net, pool, start) for start in (False, True))
    fits = [multipliers(each) for each in (problem, known)]
    scores = dict(zip(KKT, (fit.score for fit in fits), strict=True)) | free_scores(network, net, pool)
    tried = pool.n == sizes.shadow_n
    if tried:
        scores |= shadow_scores(recipe, network, net, pool, sizes, context)
    few = torch.arange(min(2 * pool.n, len(pool.x)))
    refitted = {name: multipliers(each.take(few)).score for name, each in zip(KKT, (problem, known), strict=True)}
    judge = partial(rates, seed=context.seed, draws=sizes.draws)
    told = {
        name: Record(few=judge(refitted.get(name, score[few]), pool.member[few]), many=judge(score, pool.member))
        for name, score in scores.items()
    }
    cell = Record(
        recipe=recipe,
        n_train=pool.n,
        width=width,
        log_loss=net.log_loss,
        left=fits[0].residual,
        known_left=fits[1].residual,
        scores=told,
        coverage=coverage(problem, pool, sizes, context) if tried else {},
        shadows=shadow_count(pool, sizes) if tried else 0,
    )
    return cell, scores


def trained(recipe: str, network: MLP, x: Tensor, y: Tensor, sizes: MemberSizes, generator: torch.Generator) -> Net:
    """Into the KKT regime from a small or PyTorch's own start, or with weight decay from the latter."""
    start = network.flatten(network.init(generator, "small" if recipe == RECIPES[0] else "default"))
    if recipe == RECIPES[2]:
        decayed = train_with_decay(network, x, y, start, sizes.decay)
        return Net(start, decayed.theta_star, math.log(decayed.loss))
    found = train_to_kkt(network, x, y, start, KKTSettings(sizes.steps))
    return Net(start, found.theta_star, found.log_loss)


def problem_of(network: MLP, net: Net, pool: Pool, start_known: bool) -> KKTSystem:
    """The least-squares problem of the whole pool, in float64."""
    theta, start = (network.unflatten(each.double()) for each in (net.theta, net.theta_init))
    return from_network(network, theta, pool.x.double(), pool.y.long(), start if start_known else None)


def free_scores(network: MLP, net: Net, pool: Pool) -> dict[str, Tensor]:
    """What costs nothing: see `recon.attacks.multipliers`; the margin is the loss threshold of Yeom et al. (2018)."""
    w1, w1_init = (network.unflatten(each)["w1"] for each in (net.theta, net.theta_init))
    margin = signed(network, net.theta, pool)
    found = (
        margin,
        common_margin(margin),
        row_likeness(w1, pool.x),
        span_share(FirstLayer(w1), pool.x),
        span_share(FirstLayer(w1, w1_init), pool.x),
    )
    return dict(zip(FREE, found, strict=True))


def signed(network: MLP, theta: Tensor, pool: Pool) -> Tensor:
    """Margins y Φ (m,) of all candidates, float64."""
    return ((2 * pool.y - 1) * network(network.unflatten(theta), pool.x)).double()


def shadow_count(pool: Pool, sizes: MemberSizes) -> int:
    """Shadow networks of a pool."""
    return sizes.rounds * (len(pool.x) // pool.n)


def shadow_scores(
    recipe: str, network: MLP, net: Net, pool: Pool, sizes: MemberSizes, context: Context
) -> dict[str, Tensor]:
    """LiRA and RMIA against networks that are trained alike on sets of n candidates; each round splits the whole pool
    into such sets, so that every candidate is in as many.  "Same scale": margins over their median size, since without
    decay the scale of a network's outputs grows as long as it is trained."""
    found, inside = list[Tensor](), list[Tensor]()
    for k in range(sizes.rounds):
        order = torch.randperm(len(pool.x), generator=named(context.seed, "candidates.shadows", k))
        for part in order[: len(pool.x) // pool.n * pool.n].split(pool.n):
            weights = named(context.seed, "candidates.shadow", len(found))
            shadow = trained(recipe, network, pool.x[part], pool.y[part], sizes, weights)
            found.append(signed(network, shadow.theta, pool))
            inside.append(torch.zeros(len(pool.x), dtype=torch.bool).index_fill(0, part, True))
    phi, others, members = signed(network, net.theta, pool), torch.stack(found), torch.stack(inside)
    same, others_same = (each / each.abs().median(-1, keepdim=True).values for each in (phi, others))
    scores = (
        lira(phi, others, members),
        lira(same, others_same, members),
        rmia(phi, others),
        rmia(same, others_same),
    )
    return dict(zip(SHADOWED, scores, strict=True))


def coverage(problem: KKTSystem, pool: Pool, sizes: MemberSizes, context: Context) -> dict[str, Record]:
    """The multipliers where the pool holds a share of the training images only, beside all the others."""
    found = {}
    for share in sizes.coverage:
        kept = torch.randperm(pool.n, generator=named(context.seed, "candidates.coverage"))[: round(share * pool.n)]
        rows = torch.cat([kept, torch.arange(pool.n, len(pool.x))])
        score = multipliers(problem.take(rows)).score
        found[f"{share:g}"] = rates(score, pool.member[rows], context.seed, sizes.draws)
    return found


def rates(score: Tensor, member: np.ndarray, seed: int, draws: int) -> Record:
    """Area and rates of a score (m,), larger meaning rather a member."""
    values = np.nan_to_num(score.double().numpy(), neginf=-1e300)
    spread = intervals(values, member, seed, draws)
    return Record(
        auc=auc(values, member),
        auc_interval=spread["auc"],
        tpr_1=true_rate(values, member, 0.01),
        tpr_1_interval=spread["tpr_0.01"],
        tpr_01=true_rate(values, member, 0.001),
        tpr_01_interval=spread["tpr_0.001"],
    )
