"""Train heads on the features of few images, and read the features out of their first layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from companion.chapters.base import Context, Outcome
from companion.chapters.members import Cells, part_of, table
from companion.chapters.separation_common import fast_ica_rows
from companion.store.record import Record
from recon.attacks.heads import Public, SparseSettings, sparse_features
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.images.partitions import partition
from recon.optim.rng import named
from recon.training.recipes import Recipe, accuracy, build, train

TRUE = 0.8  # a candidate is true above this cosine with a training feature
SGD = "SGD, decay 5e-3"
ADAMW = "AdamW, default"
ADAM = "Adam, decay 1e-3"
ADAMW_CHANGES = {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2}
#: DP-SGD: the best of fifteen pairs of step size and number of steps, on other images
DP_CHANGES = {"batch": None, "momentum": 0.0, "weight_decay": 0.0}
PRIVATE = tuple(f"DP-SGD, ε = {epsilon}" for epsilon in (8, 3, 1))
#: name -> passes over the images, as a share of `Sizes.epochs`, and what differs from `Sizes.base`
RECIPES: dict[str, tuple[float, dict[str, Any]]] = {
    SGD: (1.0, {}),
    "SGD, decay 5e-4": (1.0, {"weight_decay": 5e-4}),
    "SGD, no decay": (1.0, {"weight_decay": 0.0}),
    ADAM: (0.6, {"optimiser": "adam", "lr": 1e-3, "weight_decay": 1e-3}),
    ADAMW: (0.3, ADAMW_CHANGES),
    **{name: (0.2, DP_CHANGES | {"epsilon": float(name[-1])}) for name in PRIVATE},
}
BENT = (ADAM, ADAMW)  # recipes in which every weight has a step size of its own


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One head: n training images, hidden units, classes, backbone, a recipe of `RECIPES`, and what
    is known of the initial weights in the attacks on it.
    """

    n: int = 100
    width: int = 512
    classes: int = 10
    backbone: str = "lite0"
    recipe: str = SGD
    starts: tuple[str, ...] = ("unknown",)

    @property
    def name(self) -> str:
        """For checkpoints and random streams."""
        size = f"{self.backbone}, n = {self.n}, h = {self.width}"
        return f"{size}, {self.classes} classes, {self.recipe}"


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
SIZES = {
    "smoke": Sizes(
        n_train=20,
        cells=(
            Cell(n=20, width=64, recipe="SGD, decay 5e-4", starts=("known",)),
            *(Cell(n=20, width=64, recipe=name) for name in (SGD, ADAMW)),
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
    "paper": Sizes(
        n_train=100,
        cells=(
            *(Cell(n=n) for n in (100, 20, 50, 200, 300, 500)),
            Cell(n=500, width=1024),
            *(Cell(width=width) for width in (128, 256, 1024)),
            *(Cell(backbone=name) for name in ("lite1", "lite2")),
            Cell(classes=2),
            *(Cell(classes=k, recipe="SGD, decay 5e-4", starts=BOTH) for k in (10, 2)),
            Cell(n=300, recipe="SGD, decay 5e-4", starts=("known",)),
            *(Cell(recipe=name, starts=BOTH) for name in ("SGD, no decay", *BENT)),
        ),
    ),
}
NULLS = ("null", "span_null", "public_null", "projected_null")


def best_null(cell: Record) -> Record:
    """The largest of the nulls, at each cosine."""
    return Record({name: max(cell[null][name] for null in NULLS) for name in cell.null})


class Metrics(Cells):
    """All cells.

    cells: A head and an attack on it. start: what is known of it · rank: of the span searched ·
    matches: training features with a candidate of their own · null: held-out features in their
    place · span_null: mixtures of the span as candidates · public_null: public features, and
    projected: those projected on the span · certified: candidates with too many zeros for chance,
    and certified_true: those above cosine 0.8 of a training feature · fast_ica: matches by
    scikit-learn's FastICA on the same span, where it was tried. cells.matches: Features with a
    partner of their own above these cosines, both standardised by public mean and deviation.
    """

    usual = {"start": "unknown"}


@dataclass(frozen=True)
class Task:
    """Features of a cell's images: train (n, d) with labels (n,), public, others (l, d) with labels
    (l,); pictures (·, C, H, W) of "train", "public" and "others"; indices of train.
    """

    train: Tensor
    labels: Tensor
    public: Public
    others: Tensor
    other_labels: Tensor
    pixels: dict[str, Tensor]
    index: np.ndarray


@dataclass(frozen=True)
class Head:
    """A trained head, and the initial weights (h, d) of its first layer."""

    module: nn.Sequential
    w1_init: Tensor

    @staticmethod
    def of(recipe: Recipe, x: Tensor, y: Tensor, generator: torch.Generator) -> Head:
        """Trained by the recipe on x (n, d) and y (n,).

        All that plain SGD writes into the first layer lies in the span of x, and decay shrinks what
        is there of the initial weights. So n coordinates suffice, and one more, which is always 0
        and whose weights tell the decay; exactly, but for rounding.
        """
        module = build(recipe, x.shape[1], generator)
        first = module[0]
        plain = recipe.optimiser == "sgd" and recipe.epsilon is None
        assert isinstance(first, nn.Linear)
        initial = first.weight.detach().clone()
        if plain:
            basis = torch.linalg.qr(x.mT).Q.mT
            x = pad(x @ basis.mT, (0, 1))
            first.weight = nn.Parameter(pad(initial @ basis.mT, (0, 1), value=1.0))
        train(recipe, x, y, generator, module=module)
        if plain:
            w = first.weight.detach()
            outside = initial - (initial @ basis.mT) @ basis
            first.weight = nn.Parameter(w[:, :-1] @ basis + w[:, -1:] * outside)
        return Head(module.requires_grad_(False), initial)

    @property
    def parts(self) -> list[Tensor]:
        """Weights and biases (h, d), (h,), (c, h), (c,)."""
        return list(self.module.parameters())


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every cell."""
    cells = table(_attacks, sizes, context, "heads")
    return Outcome(Metrics(n_train=sizes.n_train, cells=cells), {})


def _attacks(sizes: Sizes, context: Context, cell: Cell) -> list[dict[str, Any]]:
    """One head, and an attack for each of its starts."""
    task = task_of(sizes, context, cell)
    released = head_of(sizes, context, cell, task)
    return [_attack(sizes, context, cell, task, released, start) for start in cell.starts]


def task_of(sizes: Sizes, context: Context, cell: Cell) -> Task:
    """Images, and what the backbone makes of them."""
    pool = context.pool
    of = backbone(cell.backbone, sizes.side)
    data = partition(pool, cell.n, n_held_out=2, seed=context.seed).train
    free = ~np.isin(pool.index, data.index.numpy())
    public, _ = part_of(pool, "init", free, sizes.public)
    others, labels = part_of(pool, "held_out", free, sizes.others, cell.classes)
    return Task(
        train=features(data.x, of),
        labels=data.y.long() if cell.classes == 2 else data.labels,
        public=Public(features(public, of)),
        others=features(others, of),
        other_labels=labels,
        pixels={"train": data.x, "public": public, "others": others},
        index=data.index.numpy(),
    )


def recipe_of(sizes: Any, name: str, n: int, width: int, classes: int) -> Recipe:
    """A recipe of `RECIPES`, for n images: as many passes for any number of them, but at least the
    steps of a hundred, and at most three times those.
    """
    share, changes = RECIPES[name]
    recipe = replace(sizes.base, width=width, classes=classes, **changes)
    batches = min(max(math.ceil(n / recipe.batch), 4), 12) if recipe.batch else 1
    return replace(recipe, steps=round(sizes.epochs * share * batches))


def head_of(sizes: Sizes, context: Context, cell: Cell, task: Task) -> Head:
    """The released head."""
    recipe = recipe_of(sizes, cell.recipe, len(task.train), cell.width, cell.classes)
    return Head.of(recipe, task.train, task.labels, named(context.seed, f"heads {cell.name}"))


def _attack(
    sizes: Sizes, context: Context, cell: Cell, task: Task, released: Head, start: str
) -> dict[str, Any]:
    generator = named(context.seed, f"heads nulls {cell.name} {start}")
    public = task.public
    known = released.w1_init if start == "known" else None
    if known is not None:
        torch.randn(known.shape, generator=generator)  # kept runs drew an error of the start here
    found = sparse_features(
        FirstLayer(released.parts[0], known), public, sizes.attack, cell.recipe in BENT
    )
    x_hat = found.x_hat
    basis = found.basis
    units = public.units
    rank = len(found.basis)
    normal = torch.randn(rank, rank, generator=generator)
    queries = {
        "matches": x_hat,
        "span_null": normal @ basis * units,
        "public_null": public.features,
        "projected_null": (public.features / units) @ basis.mT @ basis * units,
    }
    if cell.recipe == SGD and rank:
        queries["fast_ica"] = as_features(
            fast_ica_rows(basis, context.seed) @ basis * units, public
        )
    baseline = task.others[torch.randperm(len(task.others), generator=generator)[: cell.n]]
    true = similarity(x_hat, task.train, public).amax(1) > TRUE
    row = Record(
        n_train=len(task.train),
        start=start,
        test_accuracy=accuracy(released.module, task.others, task.other_labels),
        rank=rank,
        null=cosines(x_hat, baseline, public),
        certified=int(found.certified.sum()),
        certified_true=int((found.certified & true).sum()),
        fast_ica=None,
    )
    row |= {name: getattr(cell, name) for name in ("backbone", "width", "classes", "recipe")}
    return row | {name: cosines(of, task.train, public) for name, of in queries.items()}


def as_features(x: Tensor, public: Public) -> Tensor:
    """Rows (k, d) as features are: of the sign that leaves less below zero, nothing there, of the
    length of a public one.
    """
    flipped = x.clamp_max(0).norm(dim=1) > x.clamp_min(0).norm(dim=1)
    x = torch.where(flipped[:, None], -x, x).clamp_min(0)
    return normalize(x, dim=1) * public.features.norm(dim=1).median()


def similarity(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """Cosines (m, n) of features (m, d) and (n, d), less the public mean and in units of the public
    deviation.
    """
    a, b = (normalize(public.standardised(x), dim=1) for x in (x_hat, images))
    return a @ b.mT


def cosines(x_hat: Tensor, images: Tensor, public: Public) -> Record:
    """One-to-one matches of images (n, d) with candidates (m, d)."""
    scores = similarity(x_hat, images, public).numpy()
    matched = scores[linear_sum_assignment(scores, maximize=True)]
    return Record({f"cos_0.{k}": int((matched > k / 10).sum()) for k in (7, 8, 9)})
