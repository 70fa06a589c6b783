"""Chapter 8, the recipes: which habits of training leave images in the first layer, and what stops it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.separation_common import is_true
from companion.chapters.weights_leak.attack import attacked, evidence_of, patch_table, separated_of
from companion.chapters.weights_leak.cells import CHANGES, KNOWN, KNOWN_FOR, SHADOW, cell_of, file_name, recipe_of
from companion.chapters.weights_leak.convolution import KERNEL, patches_of, random_features, small_cnn
from companion.chapters.weights_leak.displacement import Displacement, disturbed
from companion.chapters.weights_leak.images import Task, data_task, pool_task
from companion.chapters.weights_leak.metrics import Attacked, Ending, RecipeCell, RecipeMetrics, RecipeRow, Sure
from companion.chapters.weights_leak.sizes import RecipeSizes
from recon.attacks.separation import FirstLayer
from recon.images.bundle import Bundle
from recon.scoring.certainty import SURE, calibrated, probability
from recon.training.recipes import Recipe, Trained, accuracy, early_stopping, first_weight, train


def compute_recipes(sizes: RecipeSizes, context: Context) -> Outcome[RecipeMetrics]:
    """Shadow networks first, for the adversary's certainty; then every cell of the families."""
    names = [f"{family}/{name}" for family in sizes.families for name in list(CHANGES[family])[: sizes.limit]]
    shadows = [f"{SHADOW}/{n}" for n in sizes.shadow_n]
    stems = [file_name(name) for name in shadows + names]
    found = context.sweep(partial(recipe_unit, sizes, context), stems, "recipes")
    model = calibrated([separated_of(found[file_name(name)], KNOWN[0]) for name in shadows])
    cells, diverged = [], []
    for name in names:
        stored = found[file_name(name)]
        rows = unpacked(stored, list[RecipeRow])
        diverged += [] if rows else [name]
        for row in rows:
            unmixed, true = separated_of(stored, row.known)
            said = probability(model, unmixed) >= SURE
            certainty = Sure(int(said.sum()), int((said & true).sum()), int(true.sum()))
            cells.append(RecipeCell(**vars(row), certainty=certainty))
    return Outcome(RecipeMetrics(sizes.n_train, cells, sizes.base, diverged), {})


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
        return packed([], list[RecipeRow])
    if name.startswith("noise"):
        w1 = disturbed(w1, float(name.split()[1]), context.stream("separation.noise"))
    noisy = disturbed(trained.w1_init, 0.1, context.stream("separation.noise"))
    start = dict(zip(KNOWN, (None, trained.w1_init, noisy), strict=True))
    ended, test_accuracy = ending(recipe, trained), released_accuracy(trained, w1, task)
    rows, evidence = [], Tensors()
    for known in KNOWN if name in KNOWN_FOR else KNOWN[:1]:
        found, table = attacked(task.images, FirstLayer(w1, start[known]), context, sizes.attack)
        row = RecipeRow(
            **vars(table),
            **vars(ended),
            family=family,
            cell=name,
            known=known,
            n_train=len(task.y),
            test_accuracy=test_accuracy,
        )
        rows.append(row)
        evidence |= evidence_of(found, is_true(found, task.images.train, task.images.init), known)
    return {**packed(rows, list[RecipeRow]), **evidence}


def task_of(sizes: RecipeSizes, context: Context, family: str, name: str) -> Task:
    """What the network of a cell learns."""
    if family == "data":
        return data_task(name, sizes.n_train, context)
    if family == SHADOW:
        return pool_task(context, int(name), sizes.base.classes, swapped=True)
    return pool_task(context, sizes.n_train, recipe_of(sizes.base, family, name).classes)


def ending(recipe: Recipe, trained: Trained) -> Ending:
    """How a training ended."""
    return Ending(
        erased=None if math.isnan(recipe.erased) else recipe.erased,
        **vars(Displacement.of(trained.w1, trained.w1_init)),
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
        return packed([], list[RecipeRow])
    if not dense:
        images = cut(images, generator)
    found, table = attacked(images, FirstLayer(trained.w1), context, sizes.attack)
    if not dense:
        table = Attacked(**vars(patch_table(found, images)), rank=table.rank)
    row = RecipeRow(
        **vars(table),
        **vars(ending(recipe, trained)),
        family="convolution",
        cell=name,
        known=KNOWN[0],
        n_train=sizes.n_train,
        test_accuracy=None,
    )
    true = is_true(found, images.train, images.init)
    return {**packed([row], list[RecipeRow]), **evidence_of(found, true, KNOWN[0])}


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
