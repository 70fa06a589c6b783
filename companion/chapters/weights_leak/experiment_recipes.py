"""Chapter 8, the recipes: which habits of training leave images in the first layer, and what stops
it.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kkt_network
from companion.chapters.separation_common import noisy, other_rows
from companion.chapters.tables import packed, unpacked
from companion.chapters.weights_leak.experiment_size import separation_counts
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings, start_left
from recon.images.bundle import Bundle
from recon.images.pool import PARTS
from recon.training.recipes import (
    Recipe,
    Trained,
    accuracy,
    build,
    first_weight,
    train,
)

SMALL = {"start": "small", "weight_decay": 0.0}
SHORT = {**SMALL, "batch": None, "steps": 150}
ADAM = {"optimiser": "adam", "lr": 1e-3}
ADAMW = {"optimiser": "adamw", "lr": 1e-3}
GD = {"optimiser": "gd", "batch": None}
#: Σ = 6; with larger steps networks on raw pixels often learn nothing
SLOW = {"lr": 0.03, "weight_decay": 2e-2, "steps": 2000}
#: of Gaussian noise on the released layer, in its root mean square
NOISE = {f"noise {sigma:g} on the weights": sigma for sigma in (0.1, 0.3, 1.0)}
MEAN = "training mean subtracted"
CHANNELS = "channels normalised"
#: family "inputs": cell -> what is subtracted from an image instead of the training mean, a number
#: or the mean of each channel (over its deviation), and steps of chapter 6's training for a hundred
#: images; 0 is SGD's, by `SLOW`
INPUTS: dict[str, tuple[str | float, int]] = {
    "raw pixels": (0.0, 600),
    CHANNELS: (CHANNELS, 600),
    "0.5 subtracted": (0.5, 600),
    MEAN: (MEAN, 600),
    "75 steps": (MEAN, 75),
    "raw pixels, SGD": (0.0, 0),
    "channels normalised, SGD": (CHANNELS, 0),
}
#: family -> cell -> what it changes in the base recipe
CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "inputs": {name: SMALL if steps else SLOW for name, (_, steps) in INPUTS.items()},
    "decay": {
        **{
            f"SGD, decay {decay:g}": {"weight_decay": decay}
            for decay in (0.0, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4)
        },
        "GD, decay 1e-2": GD,
        "GD, lr 0.5, decay 2e-2": {**GD, "lr": 0.5, "weight_decay": 2e-2},
        "Adam, decay 0": {**ADAM, "weight_decay": 0.0},
        "Adam, decay 1e-3": {**ADAM, "weight_decay": 1e-3},
        "Adam, decay 1e-2": {**ADAM, "weight_decay": 1e-2},
        "AdamW, decay 1e-2": {**ADAMW, "weight_decay": 1e-2},
        "AdamW, decay 10": {**ADAMW, "weight_decay": 10.0},
    },
    "start": {
        "small start": SMALL,
        "default × 0.01": {"start_scale": 0.01, "weight_decay": 0.0},
        "default × 0.1": {"start_scale": 0.1, "weight_decay": 0.0},
        "default": {"weight_decay": 0.0},
        "Kaiming": {"start": "kaiming", "weight_decay": 0.0},
        "small start, Adam": {**SMALL, **ADAM},
    },
    "task": {
        "10 classes": {"classes": 10},
        "20 % of labels wrong": {"label_noise": 0.4},
        "bias in layer 1 only": {"bias": False},
        **{f"{depth} layers": {"depth": depth} for depth in (2, 4, 6)},
    },
    "defence": {
        "base": {},
        "flips": {"augment": ("flip",)},
        "shifts": {"augment": ("shift",)},
        "flips and shifts": {"augment": ("flip", "shift")},
        "dropout 0.5": {"dropout": 0.5},
        **dict.fromkeys(NOISE, {}),
        "small start, short": SHORT,
        **{
            f"small start, short, DP-SGD, ε = {epsilon:g}": {**SHORT, "epsilon": epsilon}
            for epsilon in (100.0, 8.0, 3.0, 1.0)
        },
    },
}
#: what is known of W1(0), tried for these cells, whose start is not gone
KNOWN = ("unknown", "known")
TESTED = 2500  # of the images that nobody trained on, for the accuracy
KNOWN_FOR = ("SGD, decay 0", "SGD, decay 0.001", "Adam, decay 0")


class Metrics(Record):
    """All cells, each of n_train images, but those whose training left numbers that are not finite,
    so that there was nothing to attack.

    cells: One network of a recipe, `cell`, attacked with what is `known` of its start;
    test_accuracy: on images that nobody trained on, with the layer as it is released. cells: rank:
    directions that stood out of the layer and were searched · matches: of the candidates with the
    training images, one-to-one · null: with held-out images · best_null: the largest of all that
    costs nothing · excess: matches minus best_null. cells: How a training ended. erased: Σ lr ·
    decay / (1 − momentum), None where that is not defined · start_left: κ, see
    `recon.attacks.separation.start_left` · added: ‖W1 − κ W1(0)‖ / ‖W1(0)‖, what training added ·
    loss: in the end.
    """

    def of(self, *families: str) -> list[Record]:
        """The cells of these families."""
        return [cell for cell in self.cells if cell.family in families]


@dataclass(frozen=True, kw_only=True)
class RecipeSizes:
    """The recipes: `n_train` images; every cell changes `base`, see `CHANGES` · families
    of cells that run, and how many of each · kkt_width: of chapter 6's network."""

    n_train: int
    families: tuple[str, ...]
    base: Recipe = Recipe()
    attack: SeparationSettings = SeparationSettings(restarts=2)
    limit: int | None = None
    kkt_width: int = 1000


SIZES = {
    "smoke": RecipeSizes(
        n_train=20,
        base=Recipe(width=64, steps=150),
        attack=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        families=("decay", "inputs"),
        limit=2,
        kkt_width=64,
    ),
    "laptop": RecipeSizes(
        n_train=100,
        families=("decay", "start", "inputs"),
        limit=2,
    ),
    "paper": RecipeSizes(n_train=100, families=tuple(CHANGES)),
}


def compute(sizes: RecipeSizes, context: Context) -> Outcome[Metrics]:
    """Every cell of the families; units have names that files can have, FAMILY-NUMBER."""
    units = [
        f"{family}-{number}"
        for family in sizes.families
        for number in range(len(CHANGES[family]))[: sizes.limit]
    ]
    runs = context.sweep(partial(recipe_unit, sizes, context), units, "recipes")
    cells = [cell for unit in units for cell in unpacked(runs[unit])]
    return Outcome(Metrics(n_train=sizes.n_train, cells=cells), {})


def recipe_unit(sizes: RecipeSizes, context: Context, unit: str) -> Tensors:
    """One cell: train, release, attack with all that may be known of the start; rows of the table.

    No rows where training diverged: nobody releases such a network.
    """
    family, number = unit.split("-")
    name = list(CHANGES[family])[int(number)]
    recipe = replace(sizes.base, **CHANGES[family][name])
    images, y, others_y = classified(context, sizes.n_train, recipe.classes)
    subtracted, kkt_steps = INPUTS.get(name, (MEAN, 0))
    images = images if subtracted == MEAN else given(images, subtracted)
    if kkt_steps:
        trained = in_chapter_6(context, images, sizes.kkt_width, kkt_steps * len(y) // 100)
    else:
        weights = context.stream("separation.weights")
        trained = train(recipe, images.train, y, weights, images.shape)
    w1 = trained.w1
    if not w1.isfinite().all():
        return packed([])
    if name in NOISE:
        w1 = noisy(w1, context.stream("separation.noise"), NOISE[name])
    left, added = displacement(trained.w1, trained.w1_init)
    with torch.no_grad():
        first_weight(trained.module).copy_(w1)  # as it is released
    about = Record(
        family=family,
        cell=name,
        n_train=len(y),
        start_left=left,
        added=added,
        erased=None if math.isnan(recipe.erased) else recipe.erased,
        loss=trained.loss,
        test_accuracy=accuracy(trained.module, images.init[-TESTED:], others_y[-TESTED:]),
    )
    starts: dict[str, Tensor | None] = {KNOWN[0]: None}
    if name in KNOWN_FOR:
        starts[KNOWN[1]] = trained.w1_init
    count = partial(separation_counts, images, context=context, settings=sizes.attack)
    return packed(
        [count(FirstLayer(w1, at)) | about | {"known": known} for known, at in starts.items()]
    )


def classified(context: Context, n: int, classes: int) -> tuple[Bundle, Tensor, Tensor]:
    """The pool's images, whose `init` are others that nobody trained on, and of training images and
    others which of two classes, or of all that the pool has, they are.
    """
    images = context.images(n)
    images = images.with_others(context.pool, other_rows(context, images.train_index))
    if classes == 2:
        return images, images.y, images.init_y
    return images, images.train_labels, images.init_labels


def given(images: Bundle, subtracted: str | float) -> Bundle:
    """Images as another preprocessing gives them: minus this number, or minus the mean of each
    channel of the training images and over its deviation.
    """
    pixels = images.pixels(images.train)
    if subtracted == CHANNELS:
        moments = [of((0, 2, 3), keepdim=True) for of in (pixels.mean, pixels.std)]
    else:
        moments = [torch.tensor(float(subtracted)), torch.tensor(1.0)]
    mean, deviation = (x.expand_as(pixels[:1]).flatten().to(pixels) for x in moments)
    parts = {part: (getattr(images, part) + images.mean - mean) / deviation for part in PARTS}
    return replace(images, mean=mean, **parts)


def in_chapter_6(context: Context, images: Bundle, width: int, steps: int) -> Trained:
    """Into the KKT regime, as chapter 6 trains; how it answers its training images is not asked."""
    network, kkt = kkt_network(images, width, steps, context.stream("separation.weights"))
    module = build(Recipe(width=width, bias=False), images.dim, torch.Generator())
    vector_to_parameters(kkt.theta_star, module.parameters())
    start = network.unflatten(kkt.theta_init)["w1"]
    w1 = first_weight(module).detach().clone()
    return Trained(module, start, w1, math.exp(kkt.log_loss), math.nan, steps)


def displacement(w1: Tensor, w1_init: Tensor) -> tuple[float, float]:
    """κ and ‖W1 − κ W1(0)‖ / ‖W1(0)‖ of a layer (h, d) and its start (h, d); ReconError for a start
    of zeros.
    """
    left = start_left(w1, w1_init)
    return left, ((w1 - left * w1_init).norm() / w1_init.norm()).item()
