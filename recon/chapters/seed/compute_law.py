"""Chapter 19, the law: how many parameters a network needs for its weights to hold its images, its start known."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from recon.attacks.separation import FirstLayer, separate
from recon.attacks.tangent import AMPLE
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.packing import packed, unpacked
from recon.chapters.seed.compute import tangent
from recon.chapters.seed.metrics import FEATURES, HIDDEN, LawCell, LawMetrics
from recon.chapters.seed.sizes import LawSizes
from recon.chapters.seed.training import random_features, trained_from
from recon.images.bundle import Bundle
from recon.optim.streams import named
from recon.released import Weights
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates

LAST_LAYER = (0.0, 1.0)


def compute_law(sizes: LawSizes, context: Context) -> Outcome[LawMetrics]:
    """Both models, from the fewest parameters to the most; every cell is stored when it is done."""
    names = [f"features {ratio}" for ratio in sizes.ratios] + [f"hidden {width}" for width in sizes.widths]
    found = context.sweep(partial(law_unit, sizes, context), names, "cells")
    cells = [unpacked(found[name], LawCell) for name in names]
    return Outcome(LawMetrics(cells), {"widths": torch.tensor([cell.width for cell in cells])})


def law_unit(sizes: LawSizes, context: Context, name: str) -> Tensors:
    """One cell, "features RATIO" or "hidden WIDTH"."""
    model, value = name.split()
    by_features = model == "features"
    cell = features_cell(sizes, float(value), context) if by_features else hidden_cell(sizes, int(value), context)
    return packed(cell, LawCell)


def features_cell(sizes: LawSizes, ratio: float, context: Context) -> LawCell:
    """Random features, whose last layer alone is trained, exactly: θ* − θ⁰ = Σ_i c_i φ(V x_i) holds at the truth.  As
    many candidates as images."""
    images = context.images(sizes.features_n).at_side(sizes.features_side)
    width = max(len(images), round(ratio * images.dim * len(images)))
    weights, loss = random_features(context, images, width)
    x_hat, left = attacked(weights, len(images), f"features-{width}", sizes, context, LAST_LAYER)
    update = weights.network.unflatten(weights.theta_star)["w1"]  # V, which is known
    return LawCell(
        model=FEATURES,
        n_train=len(images),
        dim=images.dim,
        width=width,
        parameters=width,
        loss=loss,
        error=error(images.train, x_hat),
        separation_error=None,
        null_error=null_error(images, update, x_hat, context),
        left=left,
    )


def hidden_cell(sizes: LawSizes, width: int, context: Context) -> LawCell:
    """A network d-width-1, trained as a whole; twice as many candidates as images, as its authors have it."""
    images = context.images(sizes.n_train)
    weights, trained = trained_from(context, images, width, 2, "gd", sizes.steps)
    x_hat, left = attacked(weights, AMPLE * len(images), f"width-{width}", sizes, context, None)
    update = FirstLayer.of(weights).update
    unmixed = separate(FirstLayer(update), images.shape, sizes.attack, named(context.seed, "seed.separation")).sources
    return LawCell(
        model=HIDDEN,
        n_train=len(images),
        dim=images.dim,
        width=width,
        parameters=weights.network.n_params,
        loss=trained.loss,
        error=error(images.train, x_hat),
        separation_error=error(images.train, unmixed),
        null_error=null_error(images, update, x_hat, context),
        left=left,
    )


def attacked(
    weights: Weights, m: int, name: str, sizes: LawSizes, context: Context, layers: tuple[float, ...] | None
) -> tuple[Tensor, float]:
    """Candidates (m, d) of the run that explains most of the update, and the share that it does not."""
    runs = [tangent(weights, m, sizes.tangent_steps, context, f"{name}-{k}", k, layers) for k in range(sizes.restarts)]
    found, left = min(runs, key=lambda run: run[1] if math.isfinite(run[1]) else math.inf)
    return found.x_hat[0], left


def error(images: Tensor, candidates: Tensor) -> float:
    """Mean over images (n, d) of 1 − NCC² with the nearest of the candidates (m, d), in [0, 1]; 1 without any."""
    return (1 - ncc(images, candidates).square().amax(1)).mean().item() if len(candidates) else 1.0


def null_error(images: Bundle, layer: Tensor, x_hat: Tensor, context: Context) -> float:
    """The smallest error of as many candidates that cost nothing, made of `layer` (h, d); and of x_hat (m, d) itself on
    held-out images."""
    free = null_candidates(layer, images.train, images.init, len(x_hat), named(context.seed, "seed.nulls"))
    return min(error(images.held_out, x_hat), *(error(images.train, x) for x in free.values()))
