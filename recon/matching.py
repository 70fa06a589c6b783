"""Which image is which: nearest neighbours in both directions, one-to-one assignment, and the null baseline.

Truth enters here and nowhere before: no attack imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import linear_sum_assignment
from torch import Tensor, from_numpy

from recon import metrics
from recon.errors import ReconError

#: name -> (pairwise function, whether larger is more alike)
METRICS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], bool]] = {
    "l2": (metrics.l2, False),
    "ncc": (metrics.ncc, True),
    "ssim": (metrics.ssim, True),
}


@dataclass(frozen=True)
class Match:
    """For each of m images: the partner's row (m,) and the score of the pair (m,), in units of the metric."""

    index: Tensor
    score: Tensor


def _pairs(a: Tensor, b: Tensor, metric: str) -> tuple[Tensor, bool]:
    if metric not in METRICS:
        raise ReconError(f"unknown metric '{metric}': choose one of {', '.join(METRICS)}")
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise ReconError(f"images must be rows of one length, not {tuple(a.shape)} and {tuple(b.shape)}")
    pairwise, larger = METRICS[metric]
    return pairwise(a, b), larger


def nearest(a: Tensor, b: Tensor, metric: str = "l2") -> Match:
    """For each image of `a` (m, d) the most alike of `b` (n, d); one image of b may serve several of a.

    metric: "l2" (smaller is nearer), "ncc" or "ssim" (larger is nearer).  ReconError for another or for bad shapes.
    Swap the arguments for the other direction (for each training image its best reconstruction).
    """
    scores, larger = _pairs(a, b, metric)
    best = scores.max(dim=1) if larger else scores.min(dim=1)
    return Match(best.indices, best.values)


def one_to_one(a: Tensor, b: Tensor, metric: str = "ncc") -> Match:
    """The assignment of images of `a` to different images of `b` (m ≤ n) with the best total score.

    Solved by SciPy's linear_sum_assignment.  Unlike `nearest`, nobody is counted twice.
    """
    if len(a) > len(b):
        raise ReconError(f"one-to-one matching needs at least as many partners: {len(a)} against {len(b)}")
    scores, larger = _pairs(a, b, metric)
    _, columns = linear_sum_assignment(scores.detach().cpu().numpy(), maximize=larger)
    index = from_numpy(columns).to(a.device)
    return Match(index, scores.gather(1, index[:, None])[:, 0])


def null_nearest(held_out: Tensor, train: Tensor, metric: str = "l2") -> Match:
    """The null baseline: what images that no training ever saw score against the training images."""
    return nearest(held_out, train, metric)
