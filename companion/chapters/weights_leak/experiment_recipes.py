"""Chapter 8, the recipes: which habits of training leave images in the first layer, and what stops it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.tables import flat
from companion.chapters.weights_leak.attack import attacked, patch_table
from companion.chapters.weights_leak.cells import CHANGES, KNOWN, KNOWN_FOR, cell_of, file_name, recipe_of
from companion.chapters.weights_leak.convolution import KERNEL, patches_of, random_features, small_cnn
from companion.chapters.weights_leak.images import Task, data_task, pool_task
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings, start_left
from recon.images.bundle import Bundle
from recon.training.recipes import Recipe, Trained, accuracy, early_stopping, first_weight, train


def start_over_update(cell: Record) -> float:
    """|κ| ‖W1(0)‖ / ‖W1 − κ W1(0)‖: how large the rest of the start is, beside what training added."""
    return abs(cell.start_left) / max(cell.added, 1e-12)


class Metrics(Record):
    """All cells, each of n_train images where its family does not say otherwise · diverged: cells, FAMILY/CELL, whose
    training left numbers that are not finite, so that there was nothing to attack.

    cells: One network of a recipe, `cell`, attacked with what is `known` of its start; test_accuracy: on images
    that nobody trained on, with the layer as it is released; None where it was not measured.
    cells: rank: directions that stood out of the layer and were searched · matches: of the candidates with the training
    images, one-to-one · null: with held-out images · best_null: the largest of all that costs nothing · excess: matches
    minus best_null.
    cells: How a training ended. erased: Σ lr · decay / (1 − momentum), None where that is not defined · start_left: κ,
    see `recon.attacks.separation.start_left` · added: ‖W1 − κ W1(0)‖ / ‖W1(0)‖, what training added · loss, steps,
    train_accuracy: see `recon.training.recipes.Trained`.
    """

    def of(self, *families: str) -> list[Record]:
        """The cells of these families."""
        return [cell for cell in self.cells if cell.family in families]


@dataclass(frozen=True, kw_only=True)
class RecipeSizes:
    """The recipes: `n_train` images; every cell changes `base`, see `companion.chapters.weights_leak.cells` · families
    of cells that run, and how many of each."""

    n_train: int
    base: Recipe
    attack: SeparationSettings
    families: tuple[str, ...]
    limit: int | None = None


FAMILIES = ("decay", "start", "stop", "task", "data", "defence", "convolution")


SIZES = {
    "smoke": RecipeSizes(
        n_train=20,
        base=Recipe(width=64, steps=150),
        attack=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        families=("decay", "convolution"),
        limit=2,
    ),
    "laptop": RecipeSizes(
        n_train=100,
        base=Recipe(),
        attack=SeparationSettings(restarts=2),
        families=("decay", "start"),
        limit=2,
    ),
    "paper": RecipeSizes(n_train=100, base=Recipe(), attack=SeparationSettings(restarts=2), families=FAMILIES),
}


def compute(sizes: RecipeSizes, context: Context) -> Outcome[Metrics]:
    """Every cell of the families."""
    names = [f"{family}/{name}" for family in sizes.families for name in list(CHANGES[family])[: sizes.limit]]
    found = context.sweep(partial(recipe_unit, sizes, context), [file_name(name) for name in names], "recipes")
    rows = {name: unpacked(found[file_name(name)]) for name in names}
    cells = [row for each in rows.values() for row in each]
    return Outcome(Metrics(n_train=sizes.n_train, cells=cells, diverged=[n for n in names if not rows[n]]), {})


def recipe_unit(sizes: RecipeSizes, context: Context, stem: str) -> Tensors:
    """One cell: train, release, attack with all that may be known of the start; rows of the table.

    No rows where training diverged: nobody releases such a network.
    """
    family, name = cell_of(stem)
    recipe = recipe_of(sizes.base, family, name)
    if family == "convolution":
        return convolution_unit(sizes, context, name)
    data = family == "data"
    task = data_task(name, sizes.n_train, context) if data else pool_task(context, sizes.n_train, recipe.classes)
    recipe = replace(recipe, classes=task.classes) if data else recipe
    stop = early_stopping(*task.validation) if name.startswith("early stopping") else None
    trained = train(recipe, task.images.train, task.y, context.stream("separation.weights"), task.images.shape, stop)
    w1 = trained.w1
    if not w1.isfinite().all():
        return packed([])
    if name.startswith("noise"):
        w1 = disturbed(w1, float(name.split()[1]), context.stream("separation.noise"))
    about = {**ending(recipe, trained), "family": family, "cell": name, "n_train": len(task.y)}
    about["test_accuracy"] = released_accuracy(trained, w1, task)
    rows = []
    for known in KNOWN if name in KNOWN_FOR else KNOWN[:1]:
        start = trained.w1_init if known == "known" else None
        _, table = attacked(task.images, FirstLayer(w1, start), context, sizes.attack)
        rows.append(Record(**flat(table), **about, known=known))
    return packed(rows)


def ending(recipe: Recipe, trained: Trained) -> Record:
    """How a training ended."""
    left, added = displacement(trained.w1, trained.w1_init)
    return Record(
        erased=None if math.isnan(recipe.erased) else recipe.erased,
        start_left=left,
        added=added,
        loss=trained.loss,
        steps=trained.steps,
        train_accuracy=trained.accuracy,
    )


def displacement(w1: Tensor, w1_init: Tensor) -> tuple[float, float]:
    """κ and ‖W1 − κ W1(0)‖ / ‖W1(0)‖ of a layer (h, d) and its start (h, d); ReconError for a start of zeros."""
    left = start_left(w1, w1_init)
    return left, ((w1 - left * w1_init).norm() / w1_init.norm()).item()


def disturbed(w: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """w plus Gaussian noise of σ times its root mean square; generator: on the CPU."""
    noise = torch.randn(w.shape, generator=generator).to(w)
    return w + sigma * w.square().mean().sqrt() * noise


def released_accuracy(trained: Trained, w1: Tensor, task: Task) -> float:
    """On images that nobody trained on or validated with, with the layer as it is released, w1 (h, d)."""
    with torch.no_grad():
        first_weight(trained.module).copy_(w1)
    return accuracy(trained.module, *task.test)


def convolution_unit(sizes: RecipeSizes, context: Context, name: str) -> Tensors:
    """A dense layer behind a fixed random convolution, whose feature maps are the images; or a convolution that is
    itself trained, whose rows are mixtures of patches."""
    recipe = recipe_of(sizes.base, "convolution", name)
    task = pool_task(context, sizes.n_train, recipe.classes)
    generator = context.stream("separation.convolution")
    dense = name.startswith("dense")
    images = mapped(task.images, generator) if dense else task.images
    module = None if dense else small_cnn(images.shape, generator)
    trained = train(recipe, images.train, task.y, context.stream("separation.weights"), module=module)
    if not trained.w1.isfinite().all():
        return packed([])
    if not dense:
        images = cut(images, generator)
    found, table = attacked(images, FirstLayer(trained.w1), context, sizes.attack)
    if not dense:
        table = Record(**flat(patch_table(found, images)), rank=table.rank)
    row = Record(
        **flat(table),
        **flat(ending(recipe, trained)),
        family="convolution",
        cell=name,
        known=KNOWN[0],
        n_train=sizes.n_train,
        test_accuracy=None,
    )
    return packed([row])


def mapped(images: Bundle, generator: torch.Generator) -> Bundle:
    """Feature maps of a fixed random convolution, minus their mean."""
    (train, held_out, others), shape = random_features(_sets(images), images.shape, generator)
    mean = train.mean(0)
    return Bundle.of_tensors(train - mean, others - mean, held_out - mean, shape, mean=mean)


def cut(images: Bundle, generator: torch.Generator) -> Bundle:
    """Patches as the convolution sees them."""
    train, held_out, others = (patches_of(x, images.shape, generator) for x in _sets(images))
    return Bundle.of_tensors(train, others, held_out, (images.shape[0], KERNEL, KERNEL))


def _sets(images: Bundle) -> list[Tensor]:
    return [images.train, images.held_out, images.init]
