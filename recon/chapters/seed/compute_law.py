"""Chapter 19, the law: how many parameters a network needs for its weights to hold its images, its start known."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.attacks.separation import FirstLayer
from recon.attacks.tangent import AMPLE
from recon.chapters.base import Context, Outcome
from recon.chapters.seed.compute import tangent
from recon.chapters.seed.metrics import LawCell, LawMetrics
from recon.chapters.seed.sizes import LawSizes
from recon.chapters.seed.training import trained_from
from recon.optim.streams import named
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates


def compute_law(sizes: LawSizes, context: Context) -> Outcome[LawMetrics]:
    """From the narrowest network to the widest."""
    cells = [law_cell(sizes, width, context) for width in sizes.widths]
    dim = context.images(sizes.n_train).at_side(sizes.side).dim
    return Outcome(LawMetrics(dim, cells), {"widths": torch.tensor(sizes.widths)})


def law_cell(sizes: LawSizes, width: int, context: Context) -> LawCell:
    """One network d-width-1, attacked from several starts; the adversary takes the one that explains most."""
    images = context.images(sizes.n_train).at_side(sizes.side)
    weights, trained = trained_from(context, images, width, 2, "gd", sizes.steps)
    runs = [
        tangent(weights, AMPLE * len(images), sizes.tangent_steps, context, f"width-{width}-{k}", k)
        for k in range(sizes.restarts)
    ]
    found, left = min(runs, key=lambda run: run[1])
    x_hat, update, p = found.x_hat[0], FirstLayer.of(weights).update, weights.network.n_params
    free = null_candidates(update, images.train, images.init, len(x_hat), named(context.seed, "seed.nulls"))
    return LawCell(
        width=width,
        n_train=len(images),
        parameters=p,
        equations_per_unknown=p / (images.dim * len(images)),
        loss=trained.loss,
        error=error(images.train, x_hat),
        null_error=min(error(images.held_out, x_hat), *(error(images.train, x) for x in free.values())),
        left=left,
        rank=int(torch.linalg.matrix_rank(update.double(), rtol=1e-5)),
    )


def error(images: Tensor, candidates: Tensor) -> float:
    """Mean over images (n, d) of 1 − NCC² with the nearest of the candidates (m, d), in [0, 1]."""
    return (1 - ncc(images, candidates).square().amax(1)).mean().item()
