"""Chapter 7: when do weights leak?  Separation against numbers of images, widths, pixels, recipes and defences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor

from recon.attacks.separation import Released, Separated, start_left
from recon.chapters.base import Context, Experiment
from recon.chapters.decoreco_shared import Centred
from recon.chapters.plots import weights_leak as plots
from recon.chapters.profiles import (
    SEPARATION_RECIPES,
    SEPARATION_SIZE,
    SeparationRecipes,
    SeparationSize,
)
from recon.chapters.separation_shared import (
    THRESHOLDS,
    Sets,
    attacked,
    is_true,
    other_rows,
    others_of,
    packed,
    unpacked,
)
from recon.images.photographs import at_side, patches
from recon.nets.mlp import three_layer
from recon.scoring.certainty import SURE, calibrated, probability
from recon.scoring.metrics import ncc
from recon.scoring.nulls import clears
from recon.store.results import Claim, Outcome
from recon.store.sweep import sweep
from recon.training.kkt import train_to_kkt
from recon.training.recipes import Recipe, Trained, accuracy, first_weight, train

SHAPE = (3, 32, 32)
TRAINING_STREAM, NOISE_STREAM = 80, 81
KERNEL = 5
PATIENCE = 10  # checks of 25 steps

# ------------------------------------------------------------------------------------- images, widths and pixels


def run_size(config: SeparationSize, context: Context) -> Outcome:
    """The map over images and widths; then the same networks on images of fewer and of more pixels."""
    cells = [f"cifar-{SHAPE[1]}-{n}-{width}" for width in config.widths for n in config.ns]
    widest = config.widths[-1]
    cells += [f"cifar-{side}-{n}-{widest}" for side in config.sides for n in config.side_ns]
    cells += [f"photographs-{side}-{config.photograph_n}-{widest}" for side in config.photograph_sides]
    found = sweep(
        partial(size_unit, config, context),
        cells,
        context.checkpoints / "cells",
        context.workers,
        context.scheduler,
        "sizes",
    )
    table = [unpacked(found[name]) for name in cells]
    metrics = {"n_train": max(config.ns), "cells": table}
    return Outcome(metrics, size_claims(table), {"widths": torch.tensor(config.widths)})


def size_unit(config: SeparationSize, context: Context, name: str) -> dict[str, Tensor]:
    """One cell, "SOURCE-SIDE-N-WIDTH": train to the KKT regime, separate, count."""
    source, *numbers = name.split("-")
    side, n, width = map(int, numbers)
    sets, y = pool_sets(context, n, side) if source == "cifar" else photograph_sets(n, side)
    network = three_layer(width, sets.train.shape[1])
    theta_init = network.flatten(network.init(context.generator(TRAINING_STREAM), "small")).to(sets.train)
    trained = train_to_kkt(network, sets.train, y, theta_init, config.steps_per_image * n)
    w1 = network.unflatten(trained.theta_star)["w1"]
    found, table = attacked(sets, Released(w1), context, config.attack)
    cell = {"source": source, "side": side, "n_train": len(sets.train), "width": width, "log_loss": trained.log_loss}
    true = is_true(found, sets.train, sets.others)
    return packed({**cell, "pixels": side * side, "certainty": by_sparsity(found, true), **table})


def by_sparsity(found: Separated, true: Tensor) -> dict:
    """How well sparsity alone tells true candidates (r,) from false ones; None for an AUC where one kind is missing."""
    both = bool(true.any() and not true.all())
    auc = float(roc_auc_score(true.cpu().numpy(), found.sparsity.cpu().numpy())) if both else None
    return {"candidates": len(true), "true": int(true.sum()), "auc_of_sparsity": auc}


def pool_sets(context: Context, n: int, side: int) -> tuple[Sets, Tensor]:
    """The pool's images averaged down to side × side, and labels (n,)."""
    images = Centred.of(context, n)
    parts = [images.train, images.held_out, images.init]
    small = [at_side(part.unflatten(1, SHAPE), side).flatten(1) for part in parts]
    return Sets(small[0], small[1], small[2], (3, side, side)), images.y


def photograph_sets(n: int, side: int) -> tuple[Sets, Tensor]:
    """n patches of the bundled photographs' first two thirds, alternating between the classes while both last, against
    those of the last third (fewer), which serve as others too."""
    x, y, held_out = patches()
    x = at_side(x, side).flatten(1)
    rows = (~held_out).nonzero()[:, 0]
    turn = torch.cat([torch.arange(int((y[rows] == label).sum())) for label in (0, 1)])
    rows = torch.cat([rows[y[rows] == label] for label in (0, 1)])[turn.argsort(stable=True)][:n]
    mean = x[rows].mean(0)
    return Sets(x[rows] - mean, x[held_out] - mean, x[held_out] - mean, (3, side, side)), y[rows].float()


def size_claims(cells: list[dict]) -> list[Claim]:
    """Where separation ends, and whether more pixels move that end."""
    widest = max(cell["width"] for cell in cells)
    here = [cell for cell in cells if cell["source"] == "cifar" and cell["side"] == 32 and cell["width"] == widest]
    by_side = {
        cell["side"]: cell["excess"]["ncc_0.7"] / cell["n_train"] for cell in cells if cell["source"] == "photographs"
    }
    small, large = min(by_side), max(by_side)
    shares = [cell["excess"]["ncc_0.7"] / cell["n_train"] for cell in here]
    listed = ", ".join(f"{c['matches']['ncc_0.7']} of {c['n_train']}" for c in here)
    return [
        Claim(
            "separation-size",
            "",
            "Up to some number of images separation finds most of them; beyond it ever fewer.",
            "",
            f"above NCC 0.7 at width {widest}: {listed}",
            "best null: " + ", ".join(str(c["best_null"]["ncc_0.7"]) for c in here),
            "finding" if max(shares) > 0.5 and shares[-1] < max(shares) / 2 else "not reproduced",
        ),
        Claim(
            "separation-pixels",
            "",
            "The same scenes in more pixels are separated better.",
            "",
            "excess over the best null at NCC 0.7, share of the images: "
            + ", ".join(f"{share:.0%} at {side} × {side}" for side, share in sorted(by_side.items())),
            "",
            "finding" if by_side[large] > by_side[small] else "not reproduced",
        ),
    ]


# --------------------------------------------------------------------------------------------------------- recipes

#: family -> cell -> what it changes in the base recipe
CHANGES: dict[str, dict[str, dict]] = {
    "decay": {
        **{f"SGD, decay {decay:g}": {"weight_decay": decay} for decay in (0.0, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4)},
        "GD, decay 1e-2": {"optimiser": "gd", "batch": None},
        "GD, lr 0.5, decay 2e-2": {"optimiser": "gd", "batch": None, "lr": 0.5, "weight_decay": 2e-2},
        "Adam, decay 0": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 0.0},
        "Adam, decay 1e-3": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 1e-3},
        "Adam, decay 1e-2": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 1e-2},
        "AdamW, decay 1e-2": {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2},
        "AdamW, decay 10": {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 10.0},
    },
    "start": {
        "small start": {"start": "small", "weight_decay": 0.0},
        "default × 0.01": {"start_scale": 0.01, "weight_decay": 0.0},
        "default × 0.1": {"start_scale": 0.1, "weight_decay": 0.0},
        "default": {"weight_decay": 0.0},
        "Kaiming": {"start": "kaiming", "weight_decay": 0.0},
        "small start, Adam": {"start": "small", "optimiser": "adam", "lr": 1e-3, "weight_decay": 0.0},
    },
    "stop": {
        f"stopped at loss {loss:g}": {"start": "small", "weight_decay": 0.0, "stop_loss": loss, "cosine": False}
        for loss in (0.6, 0.3, 0.1, 1e-2, 1e-3)
    },
    "task": {
        "10 classes": {"classes": 10},
        "20 % of labels wrong": {"label_noise": 0.4},
        "bias in layer 1 only": {"bias": False},
        "2 layers": {"depth": 2},
        "4 layers": {"depth": 4},
        "6 layers": {"depth": 6},
        "base": {},
        "flips": {"augment": ("flip",)},
        "shifts": {"augment": ("shift",)},
        "flips and shifts": {"augment": ("flip", "shift")},
    },
    "data": {"digits": {}, "tabular": {}, "bundled photographs": {}},
    "defence": {
        "base, twice the steps": {"steps": 2.0},
        "dropout 0.5": {"dropout": 0.5},
        **{f"noise {sigma:g} on the weights": {} for sigma in (0.1, 0.3, 1.0)},
        "early stopping, small start": {"start": "small", "weight_decay": 0.0, "cosine": False},
        "early stopping": {"cosine": False},
        "small start, short": {"start": "small", "weight_decay": 0.0, "batch": None, "steps": 0.15},
        **{
            f"small start, short, DP-SGD, ε = {epsilon:g}": {
                "start": "small",
                "weight_decay": 0.0,
                "batch": None,
                "steps": 0.15,
                "epsilon": epsilon,
            }
            for epsilon in (100.0, 8.0, 3.0, 1.0)
        },
    },
    "convolution": {"dense after a fixed convolution": {}, "first layer convolutional": {}},
}
#: what is known of W1(0), tried for these cells, whose start is not gone
KNOWN = ("unknown", "known", "known up to 10 %")
KNOWN_FOR = ("SGD, decay 0", "SGD, decay 0.001", "Adam, decay 0")


def run_recipes(config: SeparationRecipes, context: Context) -> Outcome:
    """Shadow networks first, for the adversary's certainty; then every cell of the families."""
    names = [f"{family}/{name}" for family in config.families for name in list(CHANGES[family])[: config.limit]]
    shadows = [f"shadow/{n}" for n in config.shadow_n]
    found = sweep(
        partial(recipe_unit, config, context),
        [file_name(name) for name in shadows + names],
        context.checkpoints / "cells",
        context.workers,
        context.scheduler,
        "recipes",
    )
    model = calibrated([separated_of(found[file_name(name)]) for name in shadows])
    cells = []
    for name in names:
        stored = found[file_name(name)]
        for row in unpacked(stored)["rows"]:
            unmixed, true = separated_of(stored, row["known"])
            said = probability(model, unmixed) >= SURE
            certainty = {"sure": int(said.sum()), "true_among_sure": int((said & true).sum()), "true": int(true.sum())}
            cells.append({**row, "certainty": certainty})
    metrics = {"n_train": config.n_train, "cells": cells, "base": asdict(config.base)}
    return Outcome(metrics, recipe_claims(cells), {})


def file_name(cell: str) -> str:
    """A cell's name as a file's: family and number within it."""
    family, name = cell.split("/", 1)
    return f"{family}-{name}" if family == "shadow" else f"{family}-{list(CHANGES[family]).index(name)}"


def cell_of(stem: str) -> tuple[str, str]:
    """Inverse of `file_name`: (family, cell)."""
    family, number = stem.split("-")
    return (family, number) if family == "shadow" else (family, list(CHANGES[family])[int(number)])


def separated_of(stored: dict[str, Tensor], known: str = "unknown") -> tuple[Separated, Tensor]:
    """Evidence and truth of a stored attack: what `recon.scoring.certainty` needs of it."""
    sparsity, stability, share, true = stored[f"evidence {known}"]
    empty = torch.empty(len(sparsity), 0)
    return Separated(empty, empty, empty, sparsity, stability, share, torch.empty(0)), true.bool()


def recipe_unit(config: SeparationRecipes, context: Context, stem: str) -> dict[str, Tensor]:
    """One cell: train, release, attack with all that may be known of the start; rows of the table and the evidence."""
    family, name = cell_of(stem)
    n = int(name) if family == "shadow" else config.n_train
    change = {} if family in ("shadow", "data") else CHANGES[family][name]
    if "steps" in change:
        change = {**change, "steps": round(change["steps"] * config.base.steps)}
    recipe = replace(config.base, **change)
    if family == "convolution":
        return convolution_unit(recipe, config, context, name)
    sets, y, strangers_y = task(context, n, recipe, family, name)
    recipe = replace(recipe, classes=max(2, int(y.max()) + 1)) if family == "data" else recipe
    stop = early_stop(sets, strangers_y) if name.startswith("early stopping") else None
    generator = context.generator(TRAINING_STREAM)
    trained = train(recipe, sets.train, y, generator, sets.shape, stop)
    w1 = trained.w1
    if name.startswith("noise"):
        w1 = disturbed(w1, float(name.split()[1]), context)
    noisy = disturbed(trained.w1_init, 0.1, context)
    start = dict(zip(KNOWN, (None, trained.w1_init, noisy), strict=True))
    tries = KNOWN if name in KNOWN_FOR else KNOWN[:1]
    facts = {
        "family": family,
        "cell": name,
        "erased": None if math.isnan(recipe.erased) else recipe.erased,
        **motion(trained),
        "loss": trained.loss,
        "steps": trained.steps,
        "train_accuracy": trained.accuracy,
        "test_accuracy": held_out_accuracy(trained, w1, sets, strangers_y),
    }
    rows, kept = [], {}
    for known in tries:
        found, table = attacked(sets, Released(w1, start[known]), context, config.attack)
        true = is_true(found, sets.train, sets.others)
        rows.append({**facts, "known": known, "n_train": len(sets.train), **table})
        kept[f"evidence {known}"] = torch.stack([found.sparsity, found.stability, found.share, true.to(found.share)])
    return {**packed({"rows": rows}), **kept}


def motion(trained: Trained) -> dict[str, float]:
    """moved: ‖W1 − W1(0)‖ / ‖W1(0)‖ · start_left: κ · added: ‖W1 − κ W1(0)‖ / ‖W1(0)‖."""
    left, size = start_left(trained.w1, trained.w1_init), trained.w1_init.norm()
    return {
        "moved": ((trained.w1 - trained.w1_init).norm() / size).item(),
        "start_left": left,
        "added": ((trained.w1 - left * trained.w1_init).norm() / size).item(),
    }


def disturbed(w1: Tensor, sigma: float, context: Context) -> Tensor:
    """w1 plus noise of σ times its root mean square."""
    noise = torch.randn(w1.shape, generator=context.generator(NOISE_STREAM)).to(w1)
    return w1 + sigma * w1.square().mean().sqrt() * noise


def held_out_accuracy(trained: Trained, w1: Tensor, sets: Sets, y: Tensor) -> float:
    """On images that nobody trained on or validated with, with the layer as it is released."""
    with torch.no_grad():
        weight = first_weight(trained.module)
        weight.copy_(w1)
    first = validation_size(sets)
    return accuracy(trained.module, sets.others[first:], y[first:])


def validation_size(sets: Sets) -> int:
    """How many of the others, from the first, are for validation."""
    return min(500, len(sets.others) // 2)


def early_stop(sets: Sets, y: Tensor) -> Callable[[torch.nn.Module], bool]:
    """Ends training when the accuracy on validation images has not risen for `PATIENCE` checks."""
    first, seen = validation_size(sets), [0.0]

    def stop(module: torch.nn.Module) -> bool:
        seen.append(accuracy(module, sets.others[:first], y[:first]))
        module.train()
        return len(seen) > PATIENCE and max(seen[-PATIENCE:]) <= max(seen[:-PATIENCE])

    return stop


def task(context: Context, n: int, recipe: Recipe, family: str, name: str) -> tuple[Sets, Tensor, Tensor]:
    """Images, their classes (n,), and those of `Sets.others`."""
    if family == "data" and name in ("digits", "tabular"):
        return bundled_task(name, n, context)
    if family == "data":
        sets, y = photograph_sets(n, 32)
        _, kind, held_out = patches()
        return sets, y, kind[held_out]
    images = Centred.of(context, n, released="init" if family == "shadow" else "train")
    sets = Sets(images.train, images.held_out, others_of(context, images.train_index, images.mean), SHAPE)
    kind = torch.from_numpy(context.pool.y if recipe.classes == 2 else context.pool.labels)
    row = {int(i): k for k, i in enumerate(context.pool.index)}
    own = torch.tensor([row[int(i)] for i in images.train_index])
    return sets, kind[own], kind[other_rows(context, images.train_index)]


def bundled_task(name: str, n: int, context: Context) -> tuple[Sets, Tensor, Tensor]:
    """scikit-learn's digits (8 × 8, ten classes), or its table of breast cancers (30 columns, standardised)."""
    found = load_digits() if name == "digits" else load_breast_cancer()
    x, y = torch.from_numpy(found.data).float(), torch.from_numpy(found.target)
    x = x / 16 if name == "digits" else (x - x.mean(0)) / x.std(0)
    order = torch.randperm(len(x), generator=context.generator(NOISE_STREAM + 1))
    x, y = x[order] - x[order[:n]].mean(0), y[order]
    shape = (1, 8, 8) if name == "digits" else (x.shape[1],)
    return Sets(x[:n], x[n : 2 * n], x[n:], shape), y[:n], y[n:]


# ---------------------------------------------------------------------------------------------------- convolutions


def convolution_unit(recipe: Recipe, config: SeparationRecipes, context: Context, name: str) -> dict[str, Tensor]:
    """A dense layer behind a fixed random convolution, whose feature maps are the images; or a convolution that is
    itself trained, whose rows are mixtures of patches."""
    sets, y, strangers = task(context, config.n_train, recipe, "task", name)
    generator = context.generator(NOISE_STREAM + 2)
    if name.startswith("dense"):
        sets, module = mapped(sets, generator), None
    else:
        module = small_cnn(generator)
    trained = train(recipe, sets.train, y, context.generator(TRAINING_STREAM), module=module)
    if module is not None:
        parts = [patches_of(x, generator) for x in (sets.train, sets.held_out, sets.others)]
        sets = Sets(parts[0], parts[1], parts[2], (3, KERNEL, KERNEL))
    found, table = attacked(sets, Released(trained.w1), context, config.attack)
    if module is not None:
        table |= patch_table(found, sets)
    true = is_true(found, sets.train, sets.others)
    row = {
        "family": "convolution",
        "cell": name,
        "known": KNOWN[0],
        "erased": recipe.erased,
        **motion(trained),
        "loss": trained.loss,
        "steps": trained.steps,
        "train_accuracy": trained.accuracy,
        "test_accuracy": None,
        "n_train": config.n_train,
        **table,
    }
    kept = torch.stack([found.sparsity, found.stability, found.share, true.to(found.share)])
    return {**packed({"rows": [row]}), f"evidence {KNOWN[0]}": kept}


def mapped(sets: Sets, generator: torch.Generator) -> Sets:
    """Feature maps (8, 16, 16) of a fixed random 5 × 5 convolution with stride 2 and ReLU, minus their mean."""
    kernel = torch.randn(8, 3, KERNEL, KERNEL, generator=generator) / (3 * KERNEL**2) ** 0.5

    def features(x: Tensor) -> Tensor:
        return F.relu(F.conv2d(x.unflatten(1, SHAPE), kernel.to(x), stride=2, padding=KERNEL // 2)).flatten(1)

    parts = [features(x) for x in (sets.train, sets.held_out, sets.others)]
    mean = parts[0].mean(0)
    return Sets(parts[0] - mean, parts[1] - mean, parts[2] - mean, (8, 16, 16))


def small_cnn(generator: torch.Generator) -> torch.nn.Sequential:
    """Convolution 3 → 64, 5 × 5, stride 2; ReLU; dense to one logit; PyTorch's default start."""
    layers = [
        torch.nn.Unflatten(1, SHAPE),
        torch.nn.Conv2d(3, 64, KERNEL, stride=2, padding=KERNEL // 2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 16 * 16, 1),
    ]
    for layer in (layers[1], layers[4]):
        weight = next(layer.parameters())
        bound = weight[0].numel() ** -0.5
        for parameter in layer.parameters():
            torch.nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return torch.nn.Sequential(*layers)


def patches_of(x: Tensor, generator: torch.Generator, per_image: int = 20) -> Tensor:
    """`per_image` random 5 × 5 patches of every image (n, d): (n · per_image, 75)."""
    images = x[:500].unflatten(1, SHAPE)
    all_patches = F.unfold(images, KERNEL, stride=2).mT  # (n, places, 75)
    places = torch.randint(all_patches.shape[1], (len(images), per_image), generator=generator)
    return all_patches.gather(1, places[..., None].expand(-1, -1, all_patches.shape[2])).flatten(0, 1)


def patch_table(found: Separated, sets: Sets) -> dict:
    """Candidates whose nearest patch, of as many training as held-out ones, is of training, above each NCC; null:
    one of the held out.  What is no more than the null is no training patch read out."""
    k = min(len(sets.train), len(sets.held_out))
    near = [ncc(found.sources, x[:k]).abs().amax(1) for x in (sets.train, sets.held_out)]
    matches = {f"ncc_{t}": int(((near[0] > t) & (near[0] > near[1])).sum()) for t in THRESHOLDS}
    null = {f"ncc_{t}": int(((near[1] > t) & (near[1] >= near[0])).sum()) for t in THRESHOLDS}
    excess = {key: matches[key] - null[key] for key in matches}
    return {"matches": matches, "null": null, "span_null": null, "best_null": null, "excess": excess}


# ---------------------------------------------------------------------------------------------------------- claims


def recipe_claims(cells: list[dict]) -> list[Claim]:
    """What decides: how much of the start is left, and whether its place is known."""
    law = [cell for cell in cells if cell["family"] in ("decay", "start") and cell["known"] == KNOWN[0]]
    left = [abs(cell["start_left"]) / max(cell["added"], 1e-12) for cell in law]
    excess = [cell["excess"]["ncc_0.7"] for cell in law]
    rho = float(spearmanr(left, excess).statistic) if len(law) > 2 else math.nan
    decayed = [cell for cell in law if cell["family"] == "decay" and (cell["erased"] or 0.0) >= 3]
    kept = [
        cell
        for cell in law
        if cell["family"] == "decay" and (cell["erased"] if cell["erased"] is not None else 9) < 0.5
    ]

    def listed(rows: list[dict], key: str = "matches") -> str:
        return ", ".join(str(row[key]["ncc_0.7"]) for row in rows) or "none run"

    known = {
        cell["cell"]: cell
        for cell in cells
        if cell["family"] == "decay" and cell["known"] == "known" and cell["erased"] == 0.0
    }
    by_sgd, by_adam = (
        [known[k] for k in known if k.startswith("SGD")],
        [known[k] for k in known if k.startswith("Adam")],
    )
    return [
        Claim(
            "leak-start-erased",
            "",
            "From PyTorch's own start, weights give their images away when weight decay has erased that start "
            "(Σ lr · decay / (1 − momentum) of 3 or more), and not while it stands (below 0.5).",
            "",
            f"above NCC 0.7 where erased: {listed(decayed)}; where it stands: {listed(kept)} of {cells[0]['n_train']}; "
            f"rank correlation of the excess with what is left of the start: {rho:.2f}",
            f"best null where erased: {listed(decayed, 'best_null')}; where it stands: {listed(kept, 'best_null')}",
            "finding"
            if decayed and all(map(found_more, decayed)) and not any(map(found_more, kept))
            else "not reproduced",
        ),
        Claim(
            "leak-known-start",
            "",
            "Whoever knows the start needs no decay where training follows the gradient: the difference is enough.",
            "",
            f"above NCC 0.7, without decay: {listed(by_sgd)} of {cells[0]['n_train']} by SGD, "
            f"{listed(by_adam)} by Adam, whose steps leave the span of the images",
            f"best null: {listed(by_sgd, 'best_null')} by SGD, {listed(by_adam, 'best_null')} by Adam",
            "finding" if by_sgd and all(map(found_more, by_sgd)) else "not reproduced",
        ),
    ]


def found_more(cell: dict) -> bool:
    """Whether a cell's count at NCC 0.7 clears its best null."""
    return clears(cell["matches"]["ncc_0.7"], cell["best_null"]["ncc_0.7"])


SIZE = Experiment(
    name="separation-size",
    chapter="07-weights-leak",
    section="",
    summary="how many images, how wide a network, how many pixels: where separation ends",
    cost={"smoke": "10 s", "laptop": "8 min", "paper": "an hour"},
    configs=SEPARATION_SIZE,
    run=run_size,
    figures={"map": plots.plot_map, "pixels": plots.plot_pixels},
)
RECIPES = Experiment(
    name="separation-recipes",
    chapter="07-weights-leak",
    section="",
    summary="which habits of training leave images in the first layer, and what stops it",
    cost={"smoke": "20 s", "laptop": "10 min", "paper": "an hour"},
    configs=SEPARATION_RECIPES,
    run=run_recipes,
    figures={"law": plots.plot_law, "recipes": plots.plot_recipes},
)
