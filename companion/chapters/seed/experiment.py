"""Appendix G: how much of the training set comes back, against how much is known of the start of training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.seed.ntk import AMPLE, TangentMatching, random_candidates, unit_of
from companion.chapters.tables import flat, packed, unpacked
from companion.store.record import Record
from recon.attacks.reconstruct import reconstruct
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP
from recon.optim.rng import named
from recon.released import Weights
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates, null_table
from recon.training.recipes import Recipe, Trained, build, train

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

    nets: One network. optimiser · loss, accuracy: at the end of training · moved: ‖W1 − W1(0)‖ / ‖W1(0)‖ · rungs: from
    nothing to θ⁰ itself.
    nets.rungs: One attack with one amount of knowledge of the start θ⁰. attack: `SEPARATION` or `TANGENT` · noise:
    the size of the error in what the adversary takes for θ⁰, over that of θ⁰; None where they have nothing to
    subtract · left: share of ‖θ* − θ⁰‖² that the candidates do not explain, which the adversary sees; None for
    separation.
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
#: full batches, so that every step is a sum of gradients at the training images; steps so small, and an end so early,
#: that the network moves little: that is what the tangent attack supposes
HABITS = {"gd": partial(Recipe, optimiser="sgd", lr=0.01), "adam": partial(Recipe, optimiser="adam", lr=1e-3)}
STOP_LOSS = 0.01


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every network is stored when it is done."""
    names = [f"net-{k}" for k in range(len(sizes.nets))]
    found = context.sweep(partial(net_unit, sizes, context), names, "networks")
    arrays = Tensors()
    for k, name in enumerate(names):
        arrays |= {f"{key} {k}": tensor for key, tensor in found[name].items() if key != "json"}
    return Outcome(Metrics(nets=[unpacked(found[name]) for name in names]), arrays)


def net_unit(sizes: Sizes, context: Context, name: str) -> Tensors:
    """Of "net-K", attacked with nothing, with a θ⁰ that is nearly right, and with θ⁰: its numbers, and the images that
    figures show."""
    size = sizes.nets[int(name.removeprefix("net-"))]
    context = replace(context, checkpoints=context.checkpoints.inside(name))
    images = context.images(size.n_train)
    weights, trained = trained_from(context, images, size.width, size.optimiser, sizes.steps)
    rungs, few = [], images.train[:SHOWN]
    shown = {"truth": few, "mean": images.mean, "null": nearest_of(few, images.held_out)}
    ladder = [(SEPARATION, by_separation, noise) for noise in (None, *sizes.noise)]
    ladder += [(TANGENT, by_tangent, noise) for noise in sizes.tangent_noise if size.tangent]
    for attack, by, noise in ladder:
        rung, x_hat = by(sizes, images, known_of(weights, noise, context), noise, context)
        rungs.append(rung)
        shown[f"{attack} {noise}"] = nearest_of(few, x_hat)
    net = Record(
        n_train=len(images),
        width=size.width,
        optimiser=size.optimiser,
        loss=trained.loss,
        accuracy=trained.accuracy,
        moved=((trained.w1 - trained.w1_init).norm() / trained.w1_init.norm()).item(),
        rungs=rungs,
    )
    return {**packed(net), **shown}


def trained_from(context: Context, images: Bundle, width: int, optimiser: str, steps: int) -> tuple[Weights, Trained]:
    """A network of three linear layers from PyTorch's default start, without weight decay, to a loss of `STOP_LOSS` or
    for so many steps; θ* and θ⁰, both whole."""
    how = HABITS[optimiser](width=width, depth=3, batch=None, weight_decay=0.0, cosine=False)
    recipe = replace(how, steps=steps, stop_loss=STOP_LOSS)
    module = build(recipe, images.dim, named(context.seed, "seed.weights"))
    theta_init = parameters_to_vector(module.parameters()).detach()
    trained = train(recipe, images.train, images.y, named(context.seed, "seed.training"), module=module)
    theta_star = parameters_to_vector(trained.module.parameters()).detach()
    return Weights(MLP((images.dim, width, width, 1)), theta_star, theta_init.to(images.train)), trained


def known_of(weights: Weights, noise: float | None, context: Context) -> Weights:
    """What the adversary holds: θ*, and θ⁰ with an error of this size, a fresh draw from its distribution times
    `noise`; or nothing (None)."""
    if noise is None or weights.theta_init is None:
        return replace(weights, theta_init=None)
    drawn = weights.network.flatten(weights.network.init(named(context.seed, "seed.noise")))
    return replace(weights, theta_init=weights.theta_init + noise * drawn.to(weights.theta_init))


def by_separation(
    sizes: Sizes, images: Bundle, known: Weights, noise: float | None, context: Context
) -> tuple[Record, Tensor]:
    """`separate` on the first layer, minus what is known of its start, in at most twice as many directions as there are
    images: Adam's update stands out of nothing in all of them."""
    update, attack = FirstLayer.of(known).update, replace(sizes.attack, rank=AMPLE * len(images))
    found = separate(FirstLayer(update), images.shape, attack, named(context.seed, "seed.separation"))
    return scored(found.x_hat, images, update, context, SEPARATION, noise), found.x_hat


def by_tangent(
    sizes: Sizes, images: Bundle, known: Weights, noise: float | None, context: Context
) -> tuple[Record, Tensor]:
    """The attack of Loo et al., one run from a random start; both signs of every candidate count, as for separation."""
    m, draws, name = AMPLE * len(images), named(context.seed, "seed.tangent", 0), f"tangent-{noise}"
    x, multipliers = (each.to(known.theta_star) for each in random_candidates(m, known.network.dim, draws))
    attack = TangentMatching(known, multipliers, sizes.tangent_steps, unit=unit_of(known, x[0]))
    found = reconstruct(attack, x, sizes.tangent_steps, checkpoint=context.checkpoints.at(name), label=name)
    assert known.theta_init is not None
    whole = (known.theta_star - known.theta_init).square().sum()
    x_hat = torch.cat([found.x_hat[0], -found.x_hat[0]])
    rung = scored(x_hat, images, FirstLayer.of(known).update, context, TANGENT, noise)
    return rung.but(left=(found.energy[0] / whole).item()), x_hat


def scored(x_hat: Tensor, images: Bundle, update: Tensor, context: Context, attack: str, noise: float | None) -> Record:
    """x_hat (m, d): both signs · update (h, d): the layer that null candidates are made of."""
    m, draws = max(len(x_hat), len(images)), named(context.seed, "seed.nulls")
    free = null_candidates(update, images.train, images.init, m, draws, others_labels=images.init_y)
    table = null_table(free, images.train, images.held_out, images.mean, x_hat, images.shape)
    return Record(**flat(table), attack=attack, noise=noise, left=None)


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
