"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from sklearn.decomposition import FastICA
from torch import Tensor
from torch.nn.functional import normalize

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import ReleasedNet, kept_arrays, match_table, nulls_of, train_released
from companion.chapters.separation.certainty import certainty, first_layer
from companion.chapters.separation.sizes import Sizes
from companion.chapters.tables import MatchTable, flat
from companion.store.record import Record
from recon.attacks.decoreco import half_and_half
from recon.attacks.recover import recover
from recon.attacks.separation import FirstLayer, Separated, derivatives, separate
from recon.images.bundle import Bundle
from recon.released import Weights
from recon.scoring.matching import one_to_one, padded


class Metrics(Record):
    """The network, what separation finds in it, and how sure the adversary can be. rank: directions searched ·
    restarts_agree: mean stability · span_null: the larger of mixtures of the searched span and of the training
    images. With the fields of `Trained` and `MatchTable`.

    simpler: Separation by simpler means: scikit-learn's FastICA as it comes; our contrast in all directions at
    once.
    simpler.FastICA: The same, and how long it took.
    simpler.FastICA: Training images with a candidate of their own, held-out images in their place (null), and what
    is above the best null (excess).
    simpler.one stage: Training images with a candidate of their own, held-out images in their place (null), and
    what is above the best null (excess).
    refined: With DecoReco: begun at the separated images, which took `seconds`; from noise; and what its candidates
    span, separated in turn.
    refined.separated, then DecoReco: Training images with a candidate of their own, held-out images in their place
    (null), and what is above the best null (excess).
    certainty: Pooled over all networks that were assessed, and of each by name; shadows: images in the adversary's
    own.
    certainty: How good the adversary's probabilities are, see `recon.scoring.certainty.assessed`; None where it is
    not defined. reliability: per bin of probability its mean, the share that is true, and the number.
    certainty.networks: How good the adversary's probabilities are, see `recon.scoring.certainty.assessed`; None
    where it is not defined. reliability: per bin of probability its mean, the share that is true, and the number.
    certainty.single: AUC of each kind of evidence alone; gates: agreement with the network's own.
    """


SMEARS = 10


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Train, separate, count; the same by simpler means; refined by stationarity; and how sure the adversary can be."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    w1 = first_layer(released)
    start = time.perf_counter()
    found = separate(FirstLayer(w1), images.shape, sizes.attack, context.stream("separation.attack"))
    seconds = time.perf_counter() - start
    nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
    table = match_table(found.x_hat, images, nulls)
    simple = simpler(found, w1, sizes, context, images, nulls)
    refinement, better = refined(found, released, sizes, context, images, nulls)
    sure, said, so = certainty(sizes, context, images, released, found)
    metrics = Metrics(
        **flat(released.metrics()),
        **flat(table),
        n_train=len(images.train),
        width=sizes.width,
        recon_seconds=round(seconds, 2),
        rank=len(found.basis),
        restarts_agree=found.stability.mean().item(),
        span_null=larger(table.nulls["span"], table.nulls["mixtures"]),
        simpler=simple,
        refined=refinement,
        certainty=sure,
    )
    arrays = {
        "x_hat": found.x_hat,
        "judged_probability": said,
        "judged_true": so,
        "true": so[: len(found.sources)].clone(),
        "sparsity": found.sparsity,
        "stability": found.stability,
        "share": found.share,
        "x_hat_refined": better,
        "smears": smears(w1, SMEARS),
        **kept_arrays(images),
        **best_null_images(images.train, nulls),
    }
    return Outcome(metrics, arrays)


def larger(a: Record, b: Record) -> Record:
    """The larger of two counts, by each yardstick."""
    return Record({name: max(a[name], b[name]) for name in a})


def counted(table: MatchTable) -> Record:
    """What of a table stands beside others."""
    return Record(matches=table.matches, null=table.null, excess=table.excess)


def smears(w1: Tensor, k: int) -> Tensor:
    """The k rows of w1 (h, d) with the largest norms, as unit vectors: what the mixture looks like."""
    return normalize(w1[w1.norm(dim=1).argsort(descending=True, stable=True)[:k]], dim=1)


def best_null_images(train: Tensor, nulls: Tensors) -> Tensors:
    """For every training image (n, d) the candidate that costs nothing which is assigned to it, of the null whose best
    ten are best; and the upper envelope (n,) of all nulls' sorted NCC: as many of it are above a threshold as of the
    null that is best there."""
    assigned = {name: one_to_one(train, padded(x, len(train))) for name, x in nulls.items()}
    name = max(assigned, key=lambda each: assigned[each].score.topk(min(10, len(train))).values.sum().item())
    match = assigned[name]
    curves = torch.stack([each.score.sort(descending=True).values for each in assigned.values()])
    return {
        "x_null": padded(nulls[name], len(train))[match.index],
        "x_null_ncc": match.score,
        "null_envelope": curves.amax(0),
    }


# ------------------------------------------------------------------------------------------------ simpler attacks
def simpler(found: Separated, w1: Tensor, sizes: Sizes, context: Context, images: Bundle, nulls: Tensors) -> Record:
    """The same count by scikit-learn's FastICA in all directions at once, and by our contrast without stages."""
    one_stage = replace(sizes.attack, first_rank=None, restarts=1)
    at_once = separate(FirstLayer(w1), images.shape, one_stage, context.stream("separation.attack")).x_hat
    ica, seconds = fast_ica(found.basis, images.shape, context.seed)
    by_ica = match_table(torch.cat([ica, -ica]), images, nulls)
    return Record(
        **{"FastICA": Record(**flat(counted(by_ica)), seconds=round(seconds, 2))},
        **{"one stage": counted(match_table(at_once, images, nulls))},
    )


def fast_ica(basis: Tensor, shape: tuple[int, ...], seed: int) -> tuple[Tensor, float]:
    """Sources (r, d) by scikit-learn's FastICA on the derivatives of the basis (r, d), as it comes; and its seconds."""
    start = time.perf_counter()
    observed = derivatives(basis.cpu(), shape).flatten(1).numpy().T
    model = FastICA(len(basis), whiten="unit-variance", random_state=seed % 2**32, tol=1e-3, max_iter=300)
    model.fit(observed)
    unmixing = torch.from_numpy(model.components_.astype(np.float32)).to(basis)
    return unmixing @ basis, time.perf_counter() - start


# ----------------------------------------------------------------------------------------------------- refinement
def refined(
    found: Separated, released: ReleasedNet, sizes: Sizes, context: Context, images: Bundle, nulls: Tensors
) -> tuple[Record, Tensor]:
    """DecoReco begun at the separated images; DecoReco from noise; separation of what DecoReco's candidates span."""
    weights, attack = Weights(released.network, released.theta_star), sizes.refine
    start = time.perf_counter()
    better = recover(
        weights,
        replace(attack, distinct=1.0, project=True),
        context.stream("kkt.attack"),
        context.checkpoints.inside("refined"),
        start_of(found, attack.m, images),
    )
    seconds = time.perf_counter() - start
    noise = recover(weights, attack, context.stream("kkt.attack"), context.checkpoints.inside("noise"))
    both = separate(FirstLayer(noise.x_hat), images.shape, sizes.attack, context.stream("separation.attack"))
    metrics = Record(
        seconds=round(seconds, 2),
        **{"separated, then DecoReco": counted(match_table(better.x_hat, images, nulls))},
        **{"DecoReco": counted(match_table(noise.x_hat, images, nulls))},
        **{"DecoReco, then separated": counted(match_table(both.x_hat, images, nulls))},
    )
    return metrics, better.x_hat


def start_of(found: Separated, m: int, images: Bundle) -> Tensor:
    """x_init (m, d) of DecoReco, labels −1 first: every source with both signs, once for each label, as far as m goes.

    Their size is that of a centred photograph; rows that are missing are zero.
    """
    half = len(half_and_half(m)) // 2
    both = torch.stack([found.sources, -found.sources], dim=1).flatten(0, 1)
    start = padded(both[:half], half)
    return torch.cat([start, start]).to(images.train)
