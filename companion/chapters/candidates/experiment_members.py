"""Membership in a pool of candidates: KKT multipliers, shadow networks, and what costs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

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
from recon.training.inner_problem import DecaySettings, train_with_decay
from recon.training.kkt import KKTSettings, train_to_kkt


class Metrics(Record):
    """One network a recipe, each with a pool of `ratio` times as many other images.

    cells: One network: recipe, n_train images · scores: name -> how well it tells · shadows: how many.
    cells.scores: A score of membership on one network.
    cells.scores.many: Area under the ROC curve, and true-positive rate at a false-positive rate of 1 % with the central
    95 % of the bootstrap over images.
    """

    def cell(self, recipe: str) -> Record:
        """The network of a recipe that has shadow networks."""
        return next(each for each in self.cells if each.recipe == recipe)


@dataclass(frozen=True, kw_only=True)
class MemberSizes:
    """Membership: n_train images, width of the networks, one a recipe, and of their shadow networks: in each of so many
    `rounds` these split the pool into sets of n_train · ratio: other images for each training image · steps, decay: of
    training · draws: of the bootstrap."""

    n_train: int = 100
    width: int = 200
    rounds: int
    steps: int
    decay: DecaySettings = field(default_factory=lambda: DecaySettings(steps=400))
    ratio: int = 10
    draws: int = 200


SIZES = {
    "smoke": MemberSizes(n_train=20, width=64, rounds=2, steps=60, decay=DecaySettings(steps=60), ratio=2, draws=50),
    "laptop": MemberSizes(rounds=2, steps=300),
    "paper": MemberSizes(n_train=200, width=1000, rounds=4, steps=600),
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
    """theta_init, theta (p,)."""

    theta_init: Tensor
    theta: Tensor


def compute(sizes: MemberSizes, context: Context) -> Outcome[Metrics]:
    """Every recipe."""
    pool, cells, arrays = pool_of(sizes.n_train, sizes.ratio, context), [], Tensors()
    for recipe in RECIPES:
        scores = scores_of(recipe, pool, sizes, context)
        told = {name: Record(many=rates(each, pool.member, context.seed, sizes.draws)) for name, each in scores.items()}
        cells.append(Record(recipe=recipe, n_train=pool.n, scores=told, shadows=shadow_count(pool, sizes)))
        arrays |= {f"{recipe}: {name}": score for name, score in scores.items()}
    return Outcome(Metrics(n_train=pool.n, ratio=sizes.ratio, cells=cells), arrays)


def pool_of(n: int, ratio: int, context: Context) -> Pool:
    """The training images and `ratio` times as many others, drawn from the whole rest of the pool of images."""
    images = context.images(n)
    free = (~torch.isin(torch.from_numpy(context.pool.index), images.train_index)).nonzero()[:, 0]
    drawn = torch.randperm(len(free), generator=named(context.seed, "candidates.others", n))
    rows = free[drawn[: ratio * len(images)]].numpy()
    others = centre(context.pool.pixels(rows).flatten(1), images.mean)
    y = torch.cat([images.y, torch.from_numpy(context.pool.y[rows]).to(images.y)])
    return Pool(torch.cat([images.train, others]), y, len(images))


def scores_of(recipe: str, pool: Pool, sizes: MemberSizes, context: Context) -> dict[str, Tensor]:
    """One network, all scores of its pool."""
    network = three_layer(sizes.width, pool.x.shape[1])
    net = trained(recipe, network, pool.x[: pool.n], pool.y[: pool.n], sizes, context.stream("kkt.weights"))
    fitted = (multipliers(problem_of(network, net, pool, known)).score for known in (False, True))
    scores = dict(zip(KKT, fitted, strict=True)) | free_scores(network, net, pool)
    return scores | shadow_scores(recipe, network, net, pool, sizes, context)


def trained(recipe: str, network: MLP, x: Tensor, y: Tensor, sizes: MemberSizes, generator: torch.Generator) -> Net:
    """Into the KKT regime from a small or PyTorch's own start, or with weight decay from the latter."""
    start = network.flatten(network.init(generator, "small" if recipe == RECIPES[0] else "default"))
    if recipe == RECIPES[2]:
        return Net(start, train_with_decay(network, x, y, start, sizes.decay))
    return Net(start, train_to_kkt(network, x, y, start, KKTSettings(sizes.steps)).theta_star)


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


def rates(score: Tensor, member: np.ndarray, seed: int, draws: int) -> Record:
    """Area and rate of a score (m,), larger meaning rather a member."""
    values = np.nan_to_num(score.double().numpy(), neginf=-1e300)
    return Record(
        auc=auc(values, member),
        tpr_1=true_rate(values, member, 0.01),
        tpr_1_interval=intervals(values, member, seed, draws)["tpr_0.01"],
    )
