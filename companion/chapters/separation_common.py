"""What the chapters on separation and heads share: who counts as recovered, images that nobody
trained on, a simpler attack, and noise on weights.
"""

import numpy as np
import torch
from sklearn.decomposition import FastICA
from torch import Tensor

from companion.chapters.base import Context
from companion.store.record import Record
from recon.images.bundle import Bundle
from recon.scoring.matching import one_to_one, padded
from recon.scoring.metrics import ncc

TRUE_NCC = 0.7  # a candidate is true above this with a training image, if no other image is nearer
OTHERS = 3000
THRESHOLDS = (0.6, 0.7, 0.8)


def counts(x_hat: Tensor, images: Tensor) -> Record:
    """One-to-one matches of images (n, d) with candidates (m, d) above each of `THRESHOLDS`:
    "ncc_0.6" and so on.
    """
    score = one_to_one(images, padded(x_hat, len(images))).score
    return Record({f"ncc_{threshold}": int((score > threshold).sum()) for threshold in THRESHOLDS})


def fast_ica_rows(observed: Tensor, seed: int, tol: float = 1e-4) -> Tensor:
    """What scikit-learn's FastICA, as it comes, makes of signals (r, k): how its sources mix them,
    (r, r).
    """
    model = FastICA(
        len(observed), whiten="unit-variance", random_state=seed % 2**32, tol=tol, max_iter=300
    )
    model.fit(observed.cpu().numpy().T)
    return torch.from_numpy(model.components_.astype(np.float32))


def noisy(w: Tensor, generator: torch.Generator, sigma: float) -> Tensor:
    """w plus Gaussian noise of σ times its root mean square;

    Args:
        generator: on the CPU.
    """
    noise = torch.randn(w.shape, generator=generator).to(w)
    return w + sigma * w.square().mean().sqrt() * noise


def other_rows(context: Context, used: Tensor, most: int = OTHERS) -> Tensor:
    """Rows in the pool of up to `most` images whose index is not among those `used` (n,), drawn
    by the seed.
    """
    free = (~torch.isin(torch.from_numpy(context.pool.index), used)).nonzero()[:, 0]
    order = torch.randperm(len(free), generator=context.stream("separation.others"))
    return free[order[:most]]


def others_of(context: Context, used: Tensor, mean: Tensor, most: int = OTHERS) -> Tensor:
    """The images of `other_rows` (k, d), minus `mean`."""
    images = context.pool.pixels(other_rows(context, used, most))
    return images.flatten(1).to(mean) - mean


def other_photographs(images: Bundle, context: Context, m: int) -> Tensor:
    """2m photographs that are in none of the bundle's sets, or as many as there are, centred as the
    bundle is.
    """
    used = torch.cat([images.train_index, images.init_index, images.held_out_index])
    return others_of(context, used, images.mean, 2 * m)


def is_true(sources: Tensor, train: Tensor, others: Tensor) -> Tensor:
    """(r,) bool of (r, d): |NCC| above `TRUE_NCC` with a training image, and larger than with any
    of `others`.

    The sign is left out: mixtures do not hold it, and a negative is recognised as one.
    """
    if not len(sources):
        return torch.zeros(0, dtype=torch.bool)
    to_train, to_others = (ncc(sources, x).abs().amax(1) for x in (train, others))
    return (to_train > TRUE_NCC) & (to_train > to_others)
