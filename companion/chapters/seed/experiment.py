"""Appendix G: how much of the training set comes back, against how much is known of the start of training."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.seed.ntk import AMPLE, TangentMatching, random_candidates, unit_of
from companion.chapters.seed.training import nearly, trained_from
from companion.chapters.separation_common import TRUE_NCC
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.optim.rng import named
from recon.optim.spectrum import signal_rank
from recon.released import Weights
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates, null_table

SEPARATION, TANGENT = "separation", "tangent"


def rungs_of(net: Record, attack: str) -> list[Record]:
    """The rungs of one attack, from the least knowledge to the most."""
    return [rung for rung in net.rungs if rung.attack == attack]


def share(net: Record, rung: Record) -> float:
    """Images above NCC 0.7 beyond the best null, as a share of the training images; below 0 where the null is
    better."""
    return rung.excess.ncc_07 / net.n_train


class Metrics(Record):
    """All networks.

    nets: One network. optimiser · loss, accuracy: at the end of training · moved: ‖W1 − W1(0)‖ / ‖W1(0)‖ ·
    directions: that stand out of W1's singular values if nothing is known, and if the distribution of the start is
    · rungs: from nothing to θ⁰ itself.
    nets.rungs: One attack with one amount of knowledge of the start θ⁰. attack: `SEPARATION` or `TANGENT` · noise:
    the size of the error in what the adversary takes for θ⁰, over that of θ⁰; None where they have nothing to
    subtract · candidates: how many the attack returns · left: share of ‖θ* − θ⁰‖² that the candidates do not
    explain, which the adversary sees; None for separation · true, auc: of the candidates, those that are training
    images, and how well the attack's own evidence (sparsity; the size of the coefficient) tells them from the
    others; None where one kind is missing.
    """


@dataclass(frozen=True, kw_only=True)
class NetSizes:
    """One network 3072-width-width-1 on n_train images · optimiser: "gd", full batches with momentum, or "adam" ·
    tangent: whether the tangent attack is run on it too."""

    n_train: int
    width: int
    optimiser: str
    tangent: bool = False


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """noise: sizes of the error in the adversary's θ⁰, over that of θ⁰, from the largest to 0 · tangent_noise: those
    that the tangent attack is run with · steps: of training · tangent_steps: of the tangent attack."""

    nets: tuple[NetSizes, ...]
    noise: tuple[float, ...]
    tangent_noise: tuple[float, ...]
    attack: SeparationSettings
    steps: int
    tangent_steps: int


SIZES = {
    "smoke": Sizes(
        nets=(
            NetSizes(n_train=10, width=64, optimiser="gd", tangent=True),
            NetSizes(n_train=10, width=64, optimiser="adam"),
        ),
        noise=(0.1, 0.0),
        tangent_noise=(0.0,),
        attack=SeparationSettings(first_rank=8, iterations=40),
        steps=200,
        tangent_steps=60,
    ),
    "laptop": Sizes(
        nets=(
            NetSizes(n_train=20, width=250, optimiser="gd"),
            NetSizes(n_train=20, width=1000, optimiser="gd", tangent=True),
            NetSizes(n_train=20, width=1000, optimiser="adam"),
            NetSizes(n_train=100, width=1000, optimiser="gd"),
        ),
        noise=(1.0, 0.1, 0.01, 0.0),
        tangent_noise=(0.1, 0.0),
        attack=SeparationSettings(),
        steps=600,
        tangent_steps=600,
    ),
    "paper": Sizes(
        nets=(
            *(
                NetSizes(n_train=n, width=width, optimiser="gd", tangent=n == 20 and width <= 1000)
                for n, widths in ((20, (250, 1000, 4000)), (100, (250, 1000, 4000)), (500, (250, 1000)))
                for width in widths
            ),
            *(NetSizes(n_train=n, width=1000, optimiser="adam") for n in (20, 100, 500)),
        ),
        noise=(1.0, 0.3, 0.1, 0.03, 0.01, 0.0),
        tangent_noise=(0.1, 0.0),
        attack=SeparationSettings(),
        steps=3000,
        tangent_steps=20_000,  # a quarter of Loo et al.'s
    ),
}


SHOWN = 8  # images of a set that figures show


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every network is stored when it is done."""
    names = [f"net-{k}" for k in range(len(sizes.nets))]
    found = context.sweep(partial(net_unit, sizes, context), names, "networks")
    arrays = Tensors()
    for k, name in enumerate(names):
        arrays |= {f"{key} {k}": tensor for key, tensor in found[name].items() if key != "json"}
    return Outcome(Metrics(nets=[unpacked(found[name]) for name in names]), arrays)


def net_unit(sizes: Sizes, context: Context, name: str) -> Tensors:
    """Of "net-K": its numbers, and the images that figures show."""
    size = sizes.nets[int(name.removeprefix("net-"))]
    net, shown = attacked_net(sizes, size, replace(context, checkpoints=context.checkpoints.inside(name)))
    return {**packed(net), **shown}


def attacked_net(sizes: Sizes, size: NetSizes, context: Context) -> tuple[Record, Tensors]:
    """Train, then attack with nothing, with a θ⁰ that is nearly right, and with θ⁰."""
    images = context.images(size.n_train)
    weights, trained = trained_from(context, images, size.width, 3, size.optimiser, sizes.steps)
    rungs, shown = [], {"truth": images.train[:SHOWN], "mean": images.mean}
    for noise in (None, *sizes.noise):
        known = known_of(weights, noise, context)
        rung, x_hat = by_separation(sizes, images, known, noise, context)
        rungs.append(rung)
        shown[f"{SEPARATION} {noise}"] = nearest_of(images.train[:SHOWN], x_hat)
    for noise in sizes.tangent_noise if size.tangent else ():
        rung, x_hat = by_tangent(sizes, images, known_of(weights, noise, context), noise, context)
        rungs.append(rung)
        shown[f"{TANGENT} {noise}"] = nearest_of(images.train[:SHOWN], x_hat)
    shown["null"] = nearest_of(images.train[:SHOWN], images.held_out)
    values = torch.linalg.svdvals(trained.w1.double())
    net = Record(
        n_train=len(images),
        width=size.width,
        optimiser=size.optimiser,
        loss=trained.loss,
        accuracy=trained.accuracy,
        moved=((trained.w1 - trained.w1_init).norm() / trained.w1_init.norm()).item(),
        directions=signal_rank(values, (size.width, images.dim)),
        directions_by_distribution=int((values > noise_edge(size.width, images.dim)).sum()),
        rungs=rungs,
    )
    return net, shown


def noise_edge(width: int, dim: int) -> float:
    """The largest singular value of a start (width, dim) of U(±1/√dim), as if it were infinite: σ (√width + √dim) with
    σ = 1/√(3 dim) (Marchenko & Pastur 1967)."""
    return (math.sqrt(width) + math.sqrt(dim)) / math.sqrt(3 * dim)


def known_of(weights: Weights, noise: float | None, context: Context) -> Weights:
    """What the adversary holds: θ*, and θ⁰ with an error of this size, or nothing (None)."""
    if noise is None:
        return replace(weights, theta_init=None)
    return nearly(weights, noise, named(context.seed, "seed.noise"))


def by_separation(
    sizes: Sizes, images: Bundle, known: Weights, noise: float | None, context: Context
) -> tuple[Record, Tensor]:
    """`separate` on the first layer, minus what is known of its start, in at most twice as many directions as there are
    images: Adam's update stands out of nothing in all of them."""
    update, attack = FirstLayer.of(known).update, replace(sizes.attack, rank=AMPLE * len(images))
    found = separate(FirstLayer(update), images.shape, attack, named(context.seed, "seed.separation"))
    return scored(found.x_hat, found.sources, found.sparsity, images, update, context, SEPARATION, noise), found.x_hat


def by_tangent(sizes: Sizes, images: Bundle, known: Weights, noise: float, context: Context) -> tuple[Record, Tensor]:
    """The attack of Loo et al.; both signs of every candidate count, as for separation."""
    found, left = tangent(known, AMPLE * len(images), sizes.tangent_steps, context, f"tangent-{noise}")
    x = found.x_hat[0]
    weight = found.accepted["multipliers"][0].abs() * x.norm(dim=1)
    update = FirstLayer.of(known).update
    rung = scored(torch.cat([x, -x]), x, weight, images, update, context, TANGENT, noise)
    return rung.but(left=left), torch.cat([x, -x])


def tangent(
    known: Weights,
    m: int,
    steps: int,
    context: Context,
    name: str,
    index: int = 0,
    layer_weights: tuple[float, ...] | None = None,
) -> tuple[Reconstruction, float]:
    """One run from a random start with m candidates; and the share of ‖θ* − θ⁰‖² that it leaves unexplained."""
    x, multipliers = (
        each.to(known.theta_star)
        for each in random_candidates(m, known.network.dim, named(context.seed, "seed.tangent", index))
    )
    unit = unit_of(known, x[0], layer_weights)
    attack = TangentMatching(known, multipliers, steps, layer_weights=layer_weights, unit=unit)
    found = reconstruct(attack, x, steps, checkpoint=context.checkpoints.at(name), label=name)
    assert known.theta_init is not None
    whole = (known.theta_star - known.theta_init).square().sum()
    return found, (found.energy[0] / whole).item()


def scored(
    x_hat: Tensor,
    single: Tensor,
    evidence: Tensor,
    images: Bundle,
    update: Tensor,
    context: Context,
    attack: str,
    noise: float | None,
) -> Record:
    """x_hat (m, d): both signs · single (r, d): once, with the adversary's evidence (r,) · update (h, d): the layer
    that null candidates are made of."""
    m = max(len(x_hat), len(images))
    free = null_candidates(
        update, images.train, images.init, m, named(context.seed, "seed.nulls"), others_labels=images.init_y
    )
    table = null_table(free, images.train, images.held_out, images.mean, x_hat, images.shape)
    true = ncc(single, images.train).abs().amax(1) > TRUE_NCC if len(single) else torch.zeros(0, dtype=torch.bool)
    both = bool(true.any() and not true.all())
    return Record(
        **flat(table),
        attack=attack,
        noise=noise,
        candidates=len(single),
        left=None,
        true=int(true.sum()),
        auc=float(roc_auc_score(true.cpu().numpy(), evidence.cpu().numpy())) if both else None,
    )


def nearest_of(images: Tensor, candidates: Tensor) -> Tensor:
    """Of candidates (m, d) the one nearest by |NCC| to each image (k, d), with the image's sign and size; zeros where
    there is no candidate."""
    if not len(candidates):
        return torch.zeros_like(images)
    score = ncc(images, candidates)
    best = score.abs().argmax(1)
    sign = score[torch.arange(len(images)), best].sign()
    x = candidates[best] * sign[:, None]
    return x * (images.norm(dim=1) / x.norm(dim=1).clamp_min(1e-12))[:, None]
