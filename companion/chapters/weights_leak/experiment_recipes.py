"""Chapter 8, the recipes: which habits of training leave images in the first layer, and what stops it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.separation_common import is_true
from companion.chapters.tables import flat
from companion.chapters.weights_leak.attack import attacked, evidence_of, patch_table, separated_of
from companion.chapters.weights_leak.cells import CHANGES, KNOWN, KNOWN_FOR, SHADOW, cell_of, file_name, recipe_of
from companion.chapters.weights_leak.convolution import KERNEL, patches_of, random_features, small_cnn
from companion.chapters.weights_leak.displacement import Displacement, disturbed
from companion.chapters.weights_leak.images import Task, data_task, pool_task
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings
from recon.images.bundle import Bundle
from recon.scoring.certainty import SURE, calibrated, probability
from recon.training.recipes import Recipe, Trained, accuracy, early_stopping, first_weight, train


def start_over_update(cell: Record) -> float:
    """|κ| ‖W1(0)‖ / ‖W1 − κ W1(0)‖: how large the rest of the start is, beside what training added."""
    return abs(cell.start_left) / max(cell.added, 1e-12)


class Metrics(Record):
    """All cells, each of n_train images where its family does not say otherwise, and the recipe that they change ·
    diverged: cells, FAMILY/CELL, whose training left numbers that are not finite, so that there was nothing to
    attack.

    cells: A row of the table, with the adversary's certainty.
    cells: One network of a recipe, `cell`, attacked with what is `known` of its start; test_accuracy: on images
    that nobody trained on, with the layer as it is released; None where it was not measured.
    cells: The same, and rank: directions that stood out of the layer and were searched.
    cells: What an attack finds and what costs nothing, one-to-one. matches: of the candidates with the training
    images · null: with held-out images · span_null: the larger of mixtures of the layer's span and of the training
    images · best_null: the largest of all that costs nothing · excess: matches minus best_null.
    cells: How a training ended. erased: Σ lr · decay / (1 − momentum), None where that is not defined · moved,
    start_left κ, added: see `Displacement` · loss, steps, train_accuracy: see `recon.training.recipes.Trained`.
    cells.certainty: Candidates of which the adversary is sure, those that are true among them, and all true ones.
    """

    def of(self, *families: str) -> list[Record]:
        """The cells of these families."""
        return [cell for cell in self.cells if cell.family in families]


@dataclass(frozen=True, kw_only=True)
class RecipeSizes:
    """The recipes: `n_train` images; every cell changes `base`, see `companion.chapters.weights_leak.cells` · families
    of cells that run, and how many of each · shadow_n: images of the adversary's networks, trained by `base` on the
    other partition."""

    n_train: int
    base: Recipe
    attack: SeparationSettings
    families: tuple[str, ...]
    shadow_n: tuple[int, ...]
    limit: int | None = None


FAMILIES = ("decay", "start", "stop", "task", "data", "defence", "convolution")


SIZES = {
    "smoke": RecipeSizes(
        n_train=20,
        base=Recipe(width=64, steps=150),
        attack=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        families=("decay", "convolution"),
        shadow_n=(20, 40),
        limit=2,
    ),
    "laptop": RecipeSizes(
        n_train=100,
        base=Recipe(),
        attack=SeparationSettings(restarts=2),
        families=("decay", "start"),
        shadow_n=(100, 200),
        limit=2,
    ),
    "paper": RecipeSizes(
        n_train=100, base=Recipe(), attack=SeparationSettings(restarts=2), families=FAMILIES, shadow_n=(100, 200)
    ),
}


def compute(sizes: RecipeSizes, context: Context) -> Outcome[Metrics]:
    """Shadow networks first, for the adversary's certainty; then every cell of the families."""
    names = [f"{family}/{name}" for family in sizes.families for name in list(CHANGES[family])[: sizes.limit]]
    shadows = [f"{SHADOW}/{n}" for n in sizes.shadow_n]
    stems = [file_name(name) for name in shadows + names]
    found = context.sweep(partial(recipe_unit, sizes, context), stems, "recipes")
    model = calibrated([separated_of(found[file_name(name)], KNOWN[0]) for name in shadows])
    cells, diverged = [], []
    for name in names:
        stored = found[file_name(name)]
        rows = unpacked(stored)
        diverged += [] if rows else [name]
        for row in rows:
            unmixed, true = separated_of(stored, row.known)
            said = probability(model, unmixed) >= SURE
            certainty = Record(sure=int(said.sum()), true_among_sure=int((said & true).sum()), true=int(true.sum()))
            cells.append(Record(**flat(row), certainty=certainty))
    return Outcome(Metrics(n_train=sizes.n_train, cells=cells, base=sizes.base, diverged=diverged), {})


def recipe_unit(sizes: RecipeSizes, context: Context, stem: str) -> Tensors:
    """One cell: train, release, attack with all that may be known of the start; rows of the table and the evidence.

    No rows where training diverged: nobody releases such a network.
    """
    family, name = cell_of(stem)
    recipe = recipe_of(sizes.base, family, name)
    if family == "convolution":
        return convolution_unit(sizes, context, name)
    task = task_of(sizes, context, family, name)
    recipe = replace(recipe, classes=task.classes) if family == "data" else recipe
    stop = early_stopping(*task.validation) if name.startswith("early stopping") else None
    trained = train(recipe, task.images.train, task.y, context.stream("separation.weights"), task.images.shape, stop)
    w1 = trained.w1
    if not w1.isfinite().all():
        return packed([])
    if name.startswith("noise"):
        w1 = disturbed(w1, float(name.split()[1]), context.stream("separation.noise"))
    noisy = disturbed(trained.w1_init, 0.1, context.stream("separation.noise"))
    start = dict(zip(KNOWN, (None, trained.w1_init, noisy), strict=True))
    ended, test_accuracy = ending(recipe, trained), released_accuracy(trained, w1, task)
    rows, evidence = [], Tensors()
    for known in KNOWN if name in KNOWN_FOR else KNOWN[:1]:
        found, table = attacked(task.images, FirstLayer(w1, start[known]), context, sizes.attack)
        row = Record(
            **flat(table),
            **flat(ended),
            family=family,
            cell=name,
            known=known,
            n_train=len(task.y),
            test_accuracy=test_accuracy,
        )
        rows.append(row)
        evidence |= evidence_of(found, is_true(found, task.images.train, task.images.init), known)
    return {**packed(rows), **evidence}


def task_of(sizes: RecipeSizes, context: Context, family: str, name: str) -> Task:
    """What the network of a cell learns."""
    if family == "data":
        return data_task(name, sizes.n_train, context)
    if family == SHADOW:
        return pool_task(context, int(name), sizes.base.classes, swapped=True)
    return pool_task(context, sizes.n_train, recipe_of(sizes.base, family, name).classes)


def ending(recipe: Recipe, trained: Trained) -> Record:
    """How a training ended."""
    return Record(
        erased=None if math.isnan(recipe.erased) else recipe.erased,
        **flat(Displacement.of(trained.w1, trained.w1_init)),
        loss=trained.loss,
        steps=trained.steps,
        train_accuracy=trained.accuracy,
    )


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
    true = is_true(found, images.train, images.init)
    return {**packed([row]), **evidence_of(found, true, KNOWN[0])}


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
