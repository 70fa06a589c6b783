"""Which image is which: nearest neighbours in both directions, one-to-one assignment, competition
with held-out.

Truth enters here and nowhere before: no attack imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import hypergeom
from torch import Tensor, from_numpy

from recon.errors import ReconError
from recon.scoring import metrics
from recon.scoring.metrics import Shape

#: name -> pairwise function of two sets of rows and their shape (C, H, W); larger is more alike
METRICS: dict[str, Callable[[Tensor, Tensor, Shape], Tensor]] = {
    "ncc": lambda a, b, _: metrics.ncc(a, b),
    "ncc_channel": metrics.ncc_channel,
    "ssim": metrics.ssim,
}
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Match:
    """For each of m images: the partner's row (m,) and the score of the pair (m,), in units of the
    metric.
    """

    index: Tensor
    score: Tensor


def _pairs(a: Tensor, b: Tensor, metric: str, shape: Shape) -> Tensor:
    if metric not in METRICS:
        raise ReconError(f"unknown metric '{metric}': choose one of {', '.join(METRICS)}")
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise ReconError(
            f"images must be rows of one length, not {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return METRICS[metric](a, b, shape)


def nearest(a: Tensor, b: Tensor, metric: str = "ncc", shape: Shape = ()) -> Match:
    """For each image of `a` (m, d) the most alike of `b` (n, d); one image of b may serve several
    of a. ReconError for another metric or for bad shapes. Swap the arguments for the other
    direction (for each training image its best reconstruction).

    Args:
        metric: "ncc", "ncc_channel" or "ssim"; the last two need the `shape` (C, H, W) of an image.
    """
    best = _pairs(a, b, metric, shape).max(dim=1)
    return Match(best.indices, best.values)


def one_to_one(a: Tensor, b: Tensor, metric: str = "ncc", shape: Shape = ()) -> Match:
    """The assignment of images of `a` to different images of `b` (m ≤ n) with the best total score.

    Solved by SciPy's linear_sum_assignment.  Unlike `nearest`, nobody is counted twice.

    >>> a = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.1]])
    >>> b = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.5]])
    >>> nearest(a, b).index.tolist(), one_to_one(a, b).index.tolist()
    ([0, 0], [0, 1])
    """
    if len(a) > len(b):
        raise ReconError(
            f"one-to-one matching needs at least as many partners: {len(a)} against {len(b)}"
        )
    scores = _pairs(a, b, metric, shape)
    _, columns = linear_sum_assignment(scores.detach().cpu().numpy(), maximize=True)
    index = from_numpy(columns).to(a.device)
    return Match(index, scores.gather(1, index[:, None])[:, 0])


@dataclass(frozen=True)
class Competition:
    """Candidates offered to training and held-out images at once: `targets` and `decoys` above the
    threshold. Both assume what `target_decoy` says.

    Attributes:
        fdr: (decoys + 1) / targets, at most 1, estimates the share of chance among the targets
            (target–decoy estimate with the "+1" of Barber & Candès 2015).
        p_value: probability of as many targets if membership were drawn at random.
    """

    targets: int
    decoys: int
    fdr: float
    p_value: float


def target_decoy(
    x_hat: Tensor,
    train: Tensor,
    held_out: Tensor,
    threshold: float,
) -> Competition:
    """Assign candidates (m, d) one-to-one over n training and n held-out images together; count
    pairs above threshold.

    Assumes that targets and decoys are exchangeable *given the candidates*. Then the k images
    matched above the threshold are a random subset of all 2n, and the number of training images
    among them is hypergeometric: the p-value is that of an exact permutation test. Candidates that
    know nothing of either set satisfy this. Candidates in the span of the training images do not,
    demixed or not: any mixture of training images is nearer to them than to held-out ones. There
    the p-value is too small and the fdr too low (anti-conservative): they speak against "nothing
    leaked", not for "images were recovered". Counts of recovered images are judged by their excess
    over the best of `recon.scoring.nulls`.

    >>> train, held_out = torch.eye(8)[:4], torch.eye(8)[4:]
    >>> result = target_decoy(torch.eye(8)[:3], train, held_out, threshold=0.5)
    >>> result.targets, result.decoys, round(result.fdr, 2), round(result.p_value, 3)
    (3, 0, 0.33, 0.071)
    """
    if len(train) != len(held_out):
        raise ReconError(
            f"as many held-out as training images are needed, not {len(held_out)} and {len(train)}"
        )
    images = torch.cat([train, held_out])
    scores = _pairs(x_hat, images, "ncc", ())
    rows, columns = linear_sum_assignment(scores.detach().cpu().numpy(), maximize=True)
    above = scores[from_numpy(rows), from_numpy(columns)] > threshold
    is_target = from_numpy(columns).to(above.device) < len(train)
    targets, decoys = int((above & is_target).sum()), int((above & ~is_target).sum())
    p_value = float(hypergeom.sf(targets - 1, 2 * len(train), len(train), targets + decoys))
    return Competition(targets, decoys, min(1.0, (decoys + 1) / max(targets, 1)), p_value)


SSIM_THRESHOLD = 0.4


@dataclass(frozen=True)
class ByYardstick(Generic[T]):
    """One value for each of the rules by which an image counts as matched: a metric and the
    threshold it must exceed. ncc_05 … ncc_08: NCC over the whole image · ncc_channel_06: mean NCC
    of the channels · ssim_04: SSIM. In JSON the fields are called by their labels, "ncc_0.5" …
    "ssim_0.4", which pydantic finds in their metadata.
    """

    ncc_05: T = field(metadata={"alias": "ncc_0.5"})
    ncc_06: T = field(metadata={"alias": "ncc_0.6"})
    ncc_07: T = field(metadata={"alias": "ncc_0.7"})
    ncc_08: T = field(metadata={"alias": "ncc_0.8"})
    ncc_channel_06: T = field(metadata={"alias": "ncc_channel_0.6"})
    ssim_04: T = field(metadata={"alias": "ssim_0.4"})

    def map(self, function: Callable[..., U], *others: ByYardstick[Any]) -> ByYardstick[U]:
        """function(value, value of each of `others`), field by field.

        >>> Counts(5, 4, 3, 2, 1, 0).map(lambda mine, null: mine - null, Counts(1, 1, 1, 1, 1, 1)).ncc_06
        3
        """  # noqa: E501
        columns = (vars(counts).values() for counts in (self, *others))
        return ByYardstick(*map(function, *columns))


#: field of `ByYardstick` -> its label in JSON and in tables
LABELS = {row.name: row.metadata["alias"] for row in fields(ByYardstick)}
Counts = ByYardstick[int]


def rescale(x: Tensor) -> Tensor:
    """Every image (…, d) stretched to [0, 1] by its own minimum and maximum, as the reference code
    shows them.
    """
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low).clamp_min(1e-12)


def padded(x: Tensor, n: int) -> Tensor:
    """x (m, d) with rows of zeros below it where m < n; a zero row has NCC 0 with every image."""
    return torch.cat([x, x.new_zeros(max(n - len(x), 0), x.shape[1])])


def match_counts(x_hat: Tensor, images: Tensor, mean: Tensor, shape: Shape) -> Counts:
    """How many of `images` (n, d) have a candidate of their own in x_hat (m, d), by each of our
    yardsticks. Both are centred by `mean` (d,); NCC compares them so, over the whole image or per
    channel; SSIM compares x + mean, stretched to [0, 1], with the image. One-to-one throughout, so
    that no candidate is counted twice. Fewer candidates than images are padded with zero rows. A
    zero row is no candidate: SSIM leaves it out, or it would be the mean image.

    Args:
        shape: (C, H, W).
    """
    filled = padded(x_hat, len(images))
    by_ncc = one_to_one(images, filled, "ncc", shape).score
    by_channel = one_to_one(images, filled, "ncc_channel", shape).score
    pictures = rescale(x_hat[x_hat.any(1)] + mean)
    fewer, more = sorted((pictures, images + mean), key=len)
    by_ssim = one_to_one(fewer, more, "ssim", shape).score if len(fewer) else fewer.new_zeros(0)
    return Counts(
        _above(by_ncc, 0.5),
        _above(by_ncc, 0.6),
        _above(by_ncc, 0.7),
        _above(by_ncc, 0.8),
        _above(by_channel, 0.6),
        _above(by_ssim, SSIM_THRESHOLD),
    )


def _above(scores: Tensor, threshold: float) -> int:
    return int((scores > threshold).sum())
