"""Chapter 9: train, recover, and match: training images; as nulls as many held-out ones, and what needs no attack."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recon.attacks.recover import Recovered
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.common import ReleasedNet, kept_arrays, match_table, nulls_of, timed_recover, train_released
from recon.chapters.decoreco_tuned.metrics import FromTruth, Metrics
from recon.chapters.decoreco_tuned.ranking import ranking, shown_ranks
from recon.chapters.decoreco_tuned.sizes import Sizes
from recon.chapters.tables import flat
from recon.images.bundle import Bundle
from recon.images.pool import ImagePool
from recon.scoring.matching import one_to_one, padded
from recon.scoring.nulls import null_curves


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One network, one attack; and the reconstructions in the order of their likeness to a training image."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    found, said = timed_recover(context, released, sizes.attack, "tuned")
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m, found.basis)
    others = gallery(context.pool, images.train_index, images.mean)
    blends, stream = torch.cat([nulls["span"], nulls["mixtures"]]), context.stream("separation.others")
    listed = ranking(found.x_hat, images.train, others, blends, images.mean, images.shape, stream)
    metrics = Metrics(
        n_train=sizes.n_train,
        m=sizes.attack.m,
        **flat(released.metrics()),
        **flat(said),
        **flat(match_table(found.x_hat, images, nulls)),
        shown=shown_ranks(listed),
        from_truth=from_truth(sizes, context, images, released, said.energy_by_layer[0]),
    )
    arrays = {"rank": listed.rank, "natural": listed.natural, "true": listed.true, **null_arrays(nulls, images)}
    return Outcome(metrics, {**_candidates(found), **kept_arrays(images), **arrays})


def from_truth(
    sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, energy_from_noise: float
) -> FromTruth:
    """The same search from the training images themselves: one restart, every candidate kept."""
    settings = replace(sizes.attack, m=sizes.n_train, candidates=None, restarts=1, distinct=1.0)
    start = images.train[images.y.argsort(stable=True)]
    found, said = timed_recover(context, released, settings, "from-truth", start)
    nulls = nulls_of(context, images, released.network, released.theta_star, settings.m, found.basis)
    table = match_table(found.x_hat, images, nulls)
    return FromTruth(
        energy=said.energy_by_layer[0],
        energy_from_noise=energy_from_noise,
        matches=table.matches,
        best_null=table.best_null,
    )


def gallery(pool: ImagePool, without: Tensor, mean: Tensor) -> Tensor:
    """Every image of the pool but those with index in `without`, centred (g, d): nobody trained on them."""
    rest = ~torch.isin(torch.from_numpy(pool.index), without)
    return torch.from_numpy(pool.images)[rest].flatten(1).to(mean) / 255 - mean


def _candidates(found: Recovered) -> Tensors:
    return {
        "x_hat": found.x_hat,
        "multipliers": found.multipliers,
        "labels": found.labels,
        "contribution": found.contribution,
        "agreement": found.agreement,
        "history": found.history,
    }


def null_arrays(nulls: Tensors, images: Bundle, shown: int = 10) -> Tensors:
    """Per null the sorted NCC (n,) of the training images; and of each its best candidates (≤ shown, d) with the rows
    of the training images they match."""
    arrays = {f"null_ncc_{name}": curve for name, curve in null_curves(nulls, images.train).items()}
    for name, x in nulls.items():
        candidates = padded(x, len(images.train))
        match = one_to_one(images.train, candidates)
        best = match.score.argsort(descending=True)[:shown]
        arrays |= {f"null_best_{name}": candidates[match.index[best]], f"null_best_row_{name}": best}
    return arrays
