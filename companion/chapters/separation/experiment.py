"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes it."""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn.decomposition import FastICA
from torch import Tensor
from torch.nn.functional import normalize

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays, match_table, nulls_of, train_released
from companion.chapters.separation.certainty import certainty, first_layer
from companion.chapters.separation.sizes import Sizes
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, derivatives, separate
from recon.scoring.matching import one_to_one, padded


class Metrics(Record):
    """The network, what separation finds in it, and how sure the adversary can be. rank: directions searched. With the
    fields of `Trained` and `MatchTable`.

    simpler.FastICA: Training images with a candidate of their own, by scikit-learn's FastICA as it comes.
    certainty: How good the adversary's probabilities are, see `recon.scoring.certainty.assessed`, pooled over all
    networks that were assessed; networks: of each by name.
    """


SMEARS = 10


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Train, separate, count; the same by FastICA; and how sure the adversary can be."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    w1 = first_layer(released)
    start = time.perf_counter()
    found = separate(FirstLayer(w1), images.shape, sizes.attack, context.stream("separation.attack"))
    seconds = time.perf_counter() - start
    nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
    ica = fast_ica(found.basis, images.shape, context.seed)
    by_ica = match_table(torch.cat([ica, -ica]), images, nulls)
    metrics = Metrics(
        **flat(released.metrics()),
        **flat(match_table(found.x_hat, images, nulls)),
        n_train=len(images.train),
        width=sizes.width,
        recon_seconds=round(seconds, 2),
        rank=len(found.basis),
        simpler=Record(FastICA=Record(matches=by_ica.matches)),
        certainty=certainty(sizes, context, images, released, found),
    )
    arrays = {
        "x_hat": found.x_hat,
        "smears": smears(w1, SMEARS),
        **kept_arrays(images),
        **best_null_images(images.train, nulls),
    }
    return Outcome(metrics, arrays)


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


def fast_ica(basis: Tensor, shape: tuple[int, ...], seed: int) -> Tensor:
    """Sources (r, d) by scikit-learn's FastICA on the derivatives of the basis (r, d), as it comes."""
    observed = derivatives(basis.cpu(), shape).flatten(1).numpy().T
    model = FastICA(len(basis), whiten="unit-variance", random_state=seed % 2**32, tol=1e-3, max_iter=300)
    model.fit(observed)
    return torch.from_numpy(model.components_.astype(np.float32)).to(basis) @ basis
