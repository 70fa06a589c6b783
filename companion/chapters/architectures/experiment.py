"""Appendix J, fully connected: do more layers or more classes keep the images in?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.decoreco import DecoReco, half_and_half, image_span
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP
from recon.optim.descent import Adam
from recon.optim.rng import named
from recon.released import Weights
from recon.scoring.nulls import null_candidates, null_table
from recon.training.kkt import KKTSettings, train_to_kkt
from recon.training.recipes import Recipe, train

SEPARATION, SAME_NETWORK, DECORECO = "separation", "separation, default start", "DecoReco"
START, NOTHING = "the start is known", "nothing is known"


def attack_of(net: Record, attack: str, known: str) -> Record:
    """One of the attacks."""
    return next(each for each in net.attacks if (each.attack, each.known) == (attack, known))


def title(net: Record) -> str:
    """As figures name it."""
    return f"{net.depth} layers, {net.classes} classes"


class Metrics(Record):
    """All networks; n_train, width: of each.

    nets: A fully connected network in two trainings: from PyTorch's start by gradient descent, for the adversary
    who knows the start; and from a small start to the margin regime, for the one who knows nothing. depth: linear
    layers · classes · loss, accuracy: of the first training · log_loss: natural logarithm of the loss of the second
    · attacks.
    nets.attacks: One attack on one network. attack · known: `START` or `NOTHING` · candidates: how many it returns.
    """


@dataclass(frozen=True, kw_only=True)
class DenseSizes:
    """Fully connected networks d-width-…-width-K on n_train images.

    depths: linear layers, each with two classes · classes: K, each with three linear layers; labels are CIFAR-10's,
    modulo K · steps: of training, at most · separation: settings · decoreco_steps: of each of its runs.
    """

    n_train: int
    width: int
    depths: tuple[int, ...]
    classes: tuple[int, ...]
    steps: int
    separation: SeparationSettings
    decoreco_steps: int


SIZES = {
    "smoke": DenseSizes(
        n_train=10,
        width=64,
        depths=(3, 4),
        classes=(3,),
        steps=300,
        separation=SeparationSettings(first_rank=8, iterations=40),
        decoreco_steps=50,
    ),
    "laptop": DenseSizes(
        n_train=50,
        width=300,
        depths=(3, 4, 5, 6),
        classes=(3, 5, 10),
        steps=600,
        separation=SeparationSettings(),
        decoreco_steps=400,
    ),
    "paper": DenseSizes(
        n_train=100,
        width=1000,
        depths=(3, 4, 5, 6),
        classes=(3, 5, 10),
        steps=1000,
        separation=SeparationSettings(),
        decoreco_steps=3000,
    ),
}


STEP_SIZE, STOP_LOSS = 0.03, 0.01
FAINT = 1e-2  # standard deviation of DecoReco's start
SCALES = (1e-3, 1e-2, 1e-1)  # of its multipliers
AMPLE = 2  # directions searched and candidates, for each training image


def compute(sizes: DenseSizes, context: Context) -> Outcome[Metrics]:
    """Every depth with two classes, then every number of classes with three layers."""
    cells = [(depth, 2) for depth in sizes.depths] + [(3, classes) for classes in sizes.classes]
    nets = [dense_net(sizes, context, depth, classes) for depth, classes in cells]
    return Outcome(Metrics(n_train=sizes.n_train, width=sizes.width, nets=nets), {})


def dense_net(sizes: DenseSizes, context: Context, depth: int, classes: int) -> Record:
    """One network, trained twice, and the attacks on both."""
    images = context.images(sizes.n_train)
    y = images.y.long() if classes == 2 else (images.train_labels % classes).to(images.train.device)
    recipe = Recipe(
        width=sizes.width,
        depth=depth,
        classes=classes,
        lr=STEP_SIZE,
        batch=None,
        weight_decay=0.0,
        cosine=False,
        steps=sizes.steps,
        stop_loss=STOP_LOSS,
    )
    trained = train(recipe, images.train, y, named(context.seed, "architectures.training"))
    attacks = [by_separation(sizes, context, images, FirstLayer(trained.w1, trained.w1_init), START)]
    attacks.append(by_separation(sizes, context, images, FirstLayer(trained.w1), NOTHING, SAME_NETWORK))

    network = MLP((images.dim, *[sizes.width] * (depth - 1), 1 if classes == 2 else classes), _first_only(depth))
    theta_init = network.flatten(network.init(named(context.seed, "architectures.weights"), "small")).to(images.train)
    released = train_to_kkt(network, images.train, y.to(images.y), theta_init, KKTSettings(sizes.steps))
    weights = Weights(network, released.theta_star)
    attacks.append(by_separation(sizes, context, images, FirstLayer.of(weights), NOTHING))
    attacks.append(by_decoreco(sizes, context, images, weights))
    return Record(
        depth=depth,
        classes=classes,
        loss=trained.loss,
        accuracy=trained.accuracy,
        log_loss=released.log_loss,
        attacks=attacks,
    )


def _first_only(depth: int) -> tuple[bool, ...]:
    return (True, *[False] * (depth - 1))


def by_separation(
    sizes: DenseSizes, context: Context, images: Bundle, released: FirstLayer, known: str, attack: str = SEPARATION
) -> Record:
    """In at most twice as many directions as there are images."""
    update = released.update
    settings = replace(sizes.separation, rank=AMPLE * len(images))
    found = separate(FirstLayer(update), images.shape, settings, named(context.seed, "architectures.separation"))
    return counted(context, images, update, found.x_hat, attack, known)


def by_decoreco(sizes: DenseSizes, context: Context, images: Bundle, weights: Weights) -> Record:
    """Stationarity of the first layer, in the span of what stands out; as many candidates for each class, as in the
    reference code.  One run for each scale of the multipliers; that of the lowest energy is the answer."""
    network, m = weights.network, AMPLE * len(images)
    labels = candidate_labels(network.widths[-1], m).to(images.train.device)
    layers = (1.0, *[0.0] * (network.depth - 1))
    space = image_span(weights)
    generator = named(context.seed, "architectures.decoreco")
    x_init = FAINT * torch.randn(1, m, images.dim, generator=generator).to(images.train)
    multipliers = torch.rand(1, m, generator=generator).clamp_min(0.01).to(images.train)

    def run(scale: float) -> Reconstruction:
        attack = DecoReco(
            weights,
            labels,
            multipliers * scale,
            sizes.decoreco_steps,
            optimiser_x=Adam(0.02),
            optimiser_multipliers=Adam(0.01),
            layer_weights=layers,
        )
        return reconstruct(attack.restricted(space), space.reduce(x_init), sizes.decoreco_steps, label="DecoReco")

    best = min((run(scale) for scale in SCALES), key=lambda found: found.energy.item())
    layer = FirstLayer.of(weights).w1
    return counted(context, images, layer, space.lift(best.x_hat[0]), DECORECO, NOTHING)


def candidate_labels(outputs: int, m: int) -> Tensor:
    """Labels of m candidates (m,): −1 and 1 for one logit, else the classes in equal shares, in order.

    >>> candidate_labels(3, 6).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if outputs == 1:
        return half_and_half(m)
    return (torch.arange(m) * outputs).div(m, rounding_mode="floor")


def counted(context: Context, images: Bundle, layer: Tensor, x_hat: Tensor, attack: str, known: str) -> Record:
    """With the nulls made of a layer (h, d)."""
    stream = named(context.seed, "architectures.nulls")
    m = max(len(x_hat), len(images))
    free = null_candidates(layer, images.train, images.init, m, stream, others_labels=images.init_y)
    table = null_table(free, images.train, images.held_out, images.mean, x_hat, images.shape)
    return Record(**flat(table), attack=attack, known=known, candidates=len(x_hat))
