"""Train heads on the features of few images, read the features out of their first layers, and tell
who was trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.fusion import fuse_linear_bn_eval

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.heads.scoring import cosines, pictures, rates, similarity
from companion.chapters.separation_common import fast_ica_rows, noisy
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.heads import (
    Public,
    SparseSettings,
    add_mean_row,
    matched_filter,
    span_test,
    sparse_features,
)
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.images.partitions import partition
from recon.optim.rng import named
from recon.optim.spectrum import right_singular, signal_rank
from recon.training.recipes import (
    Recipe,
    Trained,
    accuracy,
    build,
    train,
)

TRUE = 0.8  # a candidate is true above this cosine with a training feature


Publish = Callable[[Tensor, torch.Generator], Tensor]


def eight_bits(w: Tensor, _: torch.Generator) -> Tensor:
    """w (h, d) in steps of its largest entry over 127."""
    step = w.abs().max() / 127
    return (w / step).round() * step


def half_pruned(w: Tensor, _: torch.Generator) -> Tensor:
    """w (h, d) with its smaller half at 0."""
    return w * (w.abs() > w.abs().median())


@dataclass(frozen=True, kw_only=True)
class HeadRecipe:
    """How a head is trained and published. A new one is an entry of `RECIPES`.

    Attributes:
        changes: fields of the base recipe (`Sizes.base`) that have other values.
        epochs: passes over the images, of those of `Sizes.epochs`.
        habit: whether people do it without thinking of privacy.
        batch_norm: before the activation.
        standardised: features of mean 0 and deviation 1.
        views: flipped and shifted images too.
        publish: what is done to the first layer in the end.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    epochs: float = 1.0
    habit: bool = False
    batch_norm: bool = False
    standardised: bool = False
    views: bool = False
    publish: Publish | None = None

    @property
    def preconditioned(self) -> bool:
        """Whether every weight has a step size of its own."""
        return "optimiser" in self.changes


def optimised(epochs: float = 1.0, **changes: Any) -> HeadRecipe:
    """The base recipe by another optimiser."""
    return HeadRecipe(changes=changes, epochs=epochs)


def private(epsilon: float) -> HeadRecipe:
    """DP-SGD; the best of fifteen pairs of step size and number of steps, on other images."""
    changes = {"batch": None, "momentum": 0.0, "weight_decay": 0.0, "epsilon": epsilon}
    return HeadRecipe(changes=changes, epochs=0.2)


SGD, ADAMW = "SGD, decay 5e-3", "AdamW, default"
ADAMW_CHANGES = {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2}
RECIPES = {
    SGD: optimised(),
    "SGD, decay 5e-4": optimised(weight_decay=5e-4),
    "SGD, no decay": optimised(weight_decay=0.0),
    "Adam, decay 1e-3": optimised(0.6, optimiser="adam", lr=1e-3, weight_decay=1e-3),
    ADAMW: optimised(0.3, **ADAMW_CHANGES),
    "dropout 0.5": HeadRecipe(changes={"dropout": 0.5}, habit=True),
    "batch norm": HeadRecipe(batch_norm=True, habit=True),
    "standardised features": HeadRecipe(standardised=True, habit=True),
    "flips and shifts": HeadRecipe(views=True, habit=True),
    "8-bit weights": HeadRecipe(publish=eight_bits, habit=True),
    "half of the weights pruned": HeadRecipe(publish=half_pruned, habit=True),
    "noise 0.1 on the weights": HeadRecipe(publish=partial(noisy, sigma=0.1)),
    "noise 0.3 on the weights": HeadRecipe(publish=partial(noisy, sigma=0.3)),
    "noise 1 on the weights": HeadRecipe(publish=partial(noisy, sigma=1.0)),
    "DP-SGD, ε = 8": private(8.0),
    "DP-SGD, ε = 3": private(3.0),
    "DP-SGD, ε = 1": private(1.0),
    "AdamW, 10 epochs": HeadRecipe(changes=ADAMW_CHANGES, epochs=0.01),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One head: n training images, hidden units, classes, backbone, a recipe of `RECIPES`, and what
    is known of the start in the attacks on it.
    """

    n: int = 100
    width: int = 512
    classes: int = 10
    backbone: str = "lite0"
    recipe: str = SGD
    starts: tuple[str, ...] = ("unknown",)

    @property
    def how(self) -> HeadRecipe:
        """The recipe of this name."""
        return RECIPES[self.recipe]

    @property
    def name(self) -> str:
        """For people and checkpoints."""
        return (
            f"{self.backbone}, n = {self.n}, h = {self.width}, {self.classes} classes,"
            f" {self.recipe}"
        )


BASE = Recipe(depth=2, lr=0.05, momentum=0.9, batch=25, weight_decay=5e-3, cosine=False, classes=10)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        n_train: images of the first cell.
        side: of the images that the backbone is given.
        public, others: images, at most.
        base: the recipe, for `epochs` passes over the images.
    """

    n_train: int
    cells: tuple[Cell, ...]
    side: int = 128
    public: int = 2034
    others: int = 2034
    epochs: int = 1000
    base: Recipe = BASE
    attack: SparseSettings = SparseSettings()


BOTH = ("unknown", "known")
PAPER = (
    *(Cell(n=n) for n in (100, 20, 50, 200, 300, 500)),
    Cell(n=500, width=1024),
    *(Cell(width=width) for width in (128, 256, 1024)),
    *(Cell(backbone=name) for name in ("lite1", "lite2")),
    Cell(classes=2),
    Cell(recipe="SGD, decay 5e-4", starts=BOTH),
    Cell(recipe="SGD, decay 5e-4", classes=2, starts=BOTH),
    Cell(n=300, recipe="SGD, decay 5e-4", starts=("known",)),
    *(Cell(recipe=name, starts=BOTH) for name in ("SGD, no decay", "Adam, decay 1e-3", ADAMW)),
    *(Cell(n=n, recipe=ADAMW) for n in (20, 500)),
    *(Cell(recipe=name) for name in list(RECIPES)[5:]),  # those before vary the optimiser alone
)

SIZES = {
    "smoke": Sizes(
        n_train=20,
        cells=(
            Cell(n=20, width=64, recipe="SGD, decay 5e-4", starts=("known",)),
            *(Cell(n=20, width=64, recipe=name) for name in (SGD, ADAMW, "8-bit weights")),
        ),
        side=64,
        public=100,
        others=60,
        epochs=100,
        base=replace(BASE, batch=10, weight_decay=1e-2),
        attack=SparseSettings(anchors=50, rounds=2),
    ),
    "laptop": Sizes(
        n_train=100,
        cells=(Cell(), *(Cell(recipe=name, starts=BOTH) for name in ("SGD, decay 5e-4", ADAMW))),
    ),
    "paper": Sizes(n_train=100, cells=PAPER),
}


def best_null(cell: Record) -> Record:
    """The largest of the nulls, at each cosine."""
    nulls = (cell.null, cell.span_null, cell.public_null, cell.projected_null)
    return Record({name: max(null[name] for null in nulls) for name in cell.null})


class Metrics(Record):
    """All cells.

    cells: A head and an attack on it. start: what is known of it · rank: of the span searched ·
    matches: training features with a candidate of their own · null: held-out features in their
    place · span_null: mixtures of the span as candidates · public_null: public features, and
    projected: those projected on the span · certified: candidates with too many zeros for chance,
    and certified_true: those above cosine 0.8 of a training feature · span: membership by the
    distance to the span · filter: by the matched filter · margin: by the head's own confidence ·
    fast_ica: matches by scikit-learn's FastICA on the same span, where it was tried. cells.matches:
    Features with a partner of their own above these cosines, both standardised by public mean and
    deviation. cells.span: How well a score tells n members from other images: area under the ROC
    curve, and the share of members found at 1 % and 0.1 % of false alarms.
    """

    def at(self, start: str = "unknown", **of: object) -> Record | None:
        """The first cell with these fields, None where there is none."""
        wanted = {"start": start, **of}
        return next((cell for cell in self.cells if cell.only(*wanted) == wanted), None)

    def by_images(self) -> list[Record]:
        """The first head, and those that differ from it in their number of images alone."""
        same = ("recipe", "start", "backbone", "width", "classes")
        alike = [cell for cell in self.cells if cell.only(*same) == self.cells[0].only(*same)]
        return sorted(alike, key=lambda cell: cell.n_train)


@dataclass(frozen=True)
class Task:
    """Features and pictures of a cell: train (n, d), trained (v n, d) all that the head sees, y and
    labels of those, public (k, d), which of two classes these are, others (l, d), their labels;
    pictures (·, C·H·W) of each; indices of train and others.
    """

    train: Tensor
    trained: Tensor
    labels: Tensor
    public: Public
    public_y: Tensor
    others: Tensor
    other_labels: Tensor
    pixels: dict[str, Tensor]
    train_index: Tensor
    other_index: Tensor


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every cell; of the first one also the pictures that its features make."""
    names = [f"cell-{k}" for k in range(len(sizes.cells))]
    units = context.sweep(partial(_unit, sizes, context), names, label="heads")
    cells = [cell for name in names for cell in unpacked(units[name])]
    task = _task(sizes, context, sizes.cells[0])
    x_hat = units[names[0]]["x_hat"]
    arrays = {
        "x_hat": x_hat,
        "train_index": task.train_index,
        "heldout_index": task.other_index,
        **pictures(x_hat, task.train, task.pixels["train"], task.public, task.pixels["public"]),
    }
    return Outcome(Metrics(n_train=len(task.train), cells=cells), arrays)


def rescored(sizes: Sizes, context: Context, x_hat: Tensor) -> Record:
    """How many kept features (r, d) of the first cell are those of training images."""
    task = _task(sizes, context, sizes.cells[0])
    return Record(cells=[Record(matches=cosines(x_hat, task.train, task.public))])


def _unit(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One head, and an attack for each of its starts; x_hat of the first."""
    cell = sizes.cells[int(name.removeprefix("cell-"))]
    task = _task(sizes, context, cell)
    released = _head(sizes, context, cell, task)
    attacks = [_attack(sizes, context, cell, task, released, start) for start in cell.starts]
    return {**packed([row for row, _ in attacks]), **attacks[0][1]}


def _task(sizes: Sizes, context: Context, cell: Cell) -> Task:
    pool, of = context.pool, backbone(cell.backbone, sizes.side)
    data = partition(pool, cell.n, n_held_out=2, seed=context.seed).train
    free = ~np.isin(pool.index, data.index.numpy())
    public = np.flatnonzero((pool.part == "init") & free)[: sizes.public]
    others = np.flatnonzero((pool.part == "held_out") & free)[: sizes.others]
    images = {"train": data.x, "public": pool.pixels(public), "others": pool.pixels(others)}
    known = {name: features(x, of) for name, x in images.items()}
    views = [known["train"]]
    if cell.how.views:
        views = [features(x, of) for x in _views(data.x)]
    classes = torch.from_numpy(pool.y if cell.classes == 2 else pool.labels).long()
    labels = data.y.long() if cell.classes == 2 else data.labels
    return Task(
        train=known["train"],
        trained=torch.cat(views),
        labels=labels.repeat(len(views)),
        public=Public(known["public"]),
        public_y=torch.from_numpy(pool.y)[public],
        others=known["others"],
        other_labels=classes[others],
        pixels={name: x.flatten(1) for name, x in images.items()},
        train_index=data.index,
        other_index=torch.from_numpy(pool.index[others]),
    )


def _views(x: Tensor) -> list[Tensor]:
    """x (n, C, H, W) as it is, flipped, shifted by two pixels, and both."""
    return [x, x.flip(-1), x.roll((2, 2), (2, 3)), x.flip(-1).roll((-2, 2), (2, 3))]


# ----------------------------------------------------------------------------------------- training
def _head(sizes: Sizes, context: Context, cell: Cell, task: Task) -> Trained:
    """The released head.

    module: takes features as they are, with a standardiser or batch norm put into its first layer ·
    w1: as trained.
    """
    how, x, generator = cell.how, task.trained, named(context.seed, f"heads {cell.name}")
    recipe = replace(sizes.base, width=cell.width, classes=cell.classes, **how.changes)
    recipe = replace(recipe, steps=steps_of(recipe, len(task.train), sizes.epochs * how.epochs))
    mean, std = _standard(x)
    if how.standardised:
        x = (x - mean) / std
    module = build(recipe, x.shape[1], generator)
    if how.batch_norm:
        module.insert(1, nn.BatchNorm1d(cell.width))
    trained = train(recipe, x, task.labels, generator, module=module)
    first = trained.module[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        if how.publish:
            first.weight.copy_(how.publish(first.weight, generator))
        trained = replace(trained, w1=first.weight.clone())
        if how.standardised:
            first.weight.div_(std)
            first.bias.sub_(first.weight @ mean)
    if how.batch_norm:  # in use it is affine, and scales the rows of the first layer
        norm = trained.module[1]
        assert isinstance(norm, nn.BatchNorm1d)
        bare = nn.Sequential(fuse_linear_bn_eval(first, norm), *trained.module[2:])
        trained = replace(trained, module=bare)
    return trained


def steps_of(recipe: Recipe, n: int, epochs: float) -> int:
    """As many passes for any number of images, but at least the steps of a hundred, and at most
    three times those.
    """
    batches = min(max(math.ceil(n / recipe.batch), 4), 12) if recipe.batch else 1
    return round(epochs * batches)


def _standard(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation (d,) of features (n, d), 1 for what is constant, as scikit-learn's
    StandardScaler has it.
    """
    std = x.std(0)
    return x.mean(0), torch.where(std > 1e-3, std, 1.0)


# ------------------------------------------------------------------------------------------ attacks
def _attack(
    sizes: Sizes, context: Context, cell: Cell, task: Task, released: Trained, start: str
) -> tuple[Record, Tensors]:
    generator, public = named(context.seed, f"heads nulls {cell.name} {start}"), task.public
    preconditioned, others, n = cell.how.preconditioned, task.others, len(task.train)
    known = released.w1_init if start == "known" else None
    if known is not None:
        torch.randn(known.shape, generator=generator)  # kept runs drew an error of the start here
    update = FirstLayer(released.w1, known).update
    layer, rank = _searched(cell, task, update)
    settings = replace(sizes.attack, rank=rank or sizes.attack.rank)
    candidates = sparse_features(layer, public, settings, preconditioned)
    x_hat, basis, rank = candidates.x_hat, candidates.basis, len(candidates.basis)
    mixtures = (
        torch.randn(rank, rank, generator=generator) @ basis * public.units if rank else x_hat
    )
    projected = (public.features / public.units) @ basis.mT @ basis * public.units
    certified = candidates.certified
    true = similarity(x_hat, task.train, public).amax(1) > TRUE if rank else certified
    features = torch.cat([task.train, others])
    member = np.arange(len(features)) < n
    w, bias = _first(released.module)
    w = w if known is None else update
    baseline = others[torch.randperm(len(others), generator=generator)[:n]]

    def matches(of: Tensor, images: Tensor = task.train) -> Record:
        return cosines(of, images, public)

    row = Record(
        backbone=cell.backbone,
        n_train=n,
        width=cell.width,
        classes=cell.classes,
        recipe=cell.recipe,
        start=start,
        test_accuracy=accuracy(released.module, others, task.other_labels),
        rank=rank,
        matches=matches(x_hat),
        null=matches(x_hat, baseline),
        span_null=matches(mixtures),
        public_null=matches(public.features),
        projected_null=matches(projected),
        certified=int(certified.sum()),
        certified_true=int((certified & true).sum()),
        span=rates(span_test(layer, features, public, max(rank, 1), preconditioned), member),
        filter=rates(matched_filter(w, bias, features, public), member),
        margin=rates(_margin(released.module, features), member),
        fast_ica=matches(_fast_ica(basis, public, context.seed)) if cell.recipe == SGD else None,
    )
    return row, {"x_hat": x_hat}


def _searched(cell: Cell, task: Task, update: Tensor) -> tuple[FirstLayer, int | None]:
    """The layer whose rows mix features, and the rank of their span where its spectrum does not
    tell.
    """
    if not (cell.how.standardised or cell.how.batch_norm):
        return FirstLayer(update), None
    mean, deviation = _standard(task.trained)  # released with the head
    if cell.how.batch_norm:
        mean, deviation = task.public.mean, torch.ones_like(mean)
    rank = signal_rank(right_singular(update)[0], (update.shape[0], update.shape[1]))
    return FirstLayer(add_mean_row(update, mean, deviation)), rank + 1


def _first(module: nn.Sequential) -> tuple[Tensor, Tensor]:
    """Weight and bias of the first layer."""
    first = module[0]
    assert isinstance(first, nn.Linear)
    return first.weight.detach(), first.bias.detach()


@torch.no_grad()
def _margin(module: nn.Sequential, x: Tensor) -> Tensor:
    """The head's confidence in its own answer (k,), which needs no label: what ten lines would ask
    it.
    """
    outputs = module(x)
    if outputs.shape[1] == 1:
        return outputs[:, 0].abs()
    two = outputs.topk(2, dim=1).values
    return two[:, 0] - two[:, 1]


def _fast_ica(basis: Tensor, public: Public, seed: int) -> Tensor:
    """Features (r, d) by scikit-learn's FastICA as it comes, of the sign that leaves less below
    zero.
    """
    if not len(basis):
        return basis
    x = fast_ica_rows(basis, seed) @ basis
    below, above = x.clamp_max(0).square().sum(1), x.clamp_min(0).square().sum(1)
    x = torch.where((below > above)[:, None], -x, x).clamp_min(0) * public.units
    return normalize(x, dim=1) * public.features.norm(dim=1).median()
