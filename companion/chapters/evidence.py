"""What an adversary without practice can say of an attack's results: which look natural, and which
are true.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.claims import claim
from companion.chapters.reference_common import came_text, if_in_full
from companion.chapters.separation_common import OTHERS, TRUE_NCC
from companion.store.record import Record
from companion.store.results import Claim, verdict
from recon.images.bundle import Bundle
from recon.scoring.metrics import ncc
from recon.scoring.naturalness import Photographs, signs

TRUSTED = 20  # candidates that an adversary trusts most
SURE = 0.9  # share of true ones among the most trusted, from which on the adversary is said to know
PHOTOGRAPHS = 500  # the adversary's, at most, and at most a third of what nobody trains on
#: what an adversary without practice may go by: the order in which results explain the weights, and
#: signs of a photograph
PLAIN = ("contribution", "edges", "smoothness", "slope")


@dataclass(frozen=True)
class Outside:
    """Images that no network of an experiment is trained on, uncentred: `practice` (k, d) of the
    adversary, from which they learn what photographs look like · `others` (o, d), for scoring.
    """

    practice: Tensor
    others: Tensor

    @staticmethod
    def without(context: Context, used: Tensor) -> Outside:
        """Drawn by the seed from the pool's images but those with index in `used` (n,)."""
        free = (~torch.isin(torch.from_numpy(context.pool.index), used.cpu())).nonzero()[:, 0]
        free = free[torch.randperm(len(free), generator=context.stream("separation.others"))]
        rows = free[: PHOTOGRAPHS + OTHERS].numpy()
        images = context.pool.pixels(rows).flatten(1).to(context.device)
        k = min(PHOTOGRAPHS, len(images) // 3)
        return Outside(images[:k], images[k : k + OTHERS])


def describe(x: Tensor, images: Bundle, outside: Outside, either_sign: bool) -> Tensors:
    """Of candidates x (m, d): whether they look natural, the signs by which that is judged, the NCC
    with the nearest training image, which image that is, and the largest NCC with one that
    nobody trained on; (m,) each.
    """
    to_train = likeness(x, images.train, either_sign).max(1)
    looks = signs(x, images.shape)
    practice = outside.practice - outside.practice.mean(0)
    return {
        "x_hat": x,
        "natural": Photographs.of(practice, images.shape).look_like(x),
        **looks,
        "ncc": to_train.values,
        "image": to_train.indices,
        "other": likeness(x, outside.others - images.mean, either_sign).amax(1),
    }


def is_true(about: Tensors) -> Tensor:
    """(m,) bool: NCC above `TRUE_NCC` with a training image, and larger than with any image nobody
    trained on.
    """
    return (about["ncc"] > TRUE_NCC) & (about["ncc"] > about["other"])


def likeness(x: Tensor, images: Tensor, either_sign: bool) -> Tensor:
    """NCC (m, n), or its size where the sign is unknown; one column of zeros for no images."""
    if not len(images):
        return x.new_zeros(len(x), 1)
    return ncc(x, images).abs() if either_sign else ncc(x, images)


def judged_plainly(x_hat: Tensor, images: Bundle, context: Context) -> Record:
    """Results x_hat (m, d) of one network, the most contributing first, before an adversary who has
    neither training images nor practice.

    natural: how many look so, true: of these · evidence: by kind of `PLAIN`; right: true ones among
    the `TRUSTED` natural-looking results that have most of it; precision: share of true ones among
    as many, or as there are true ones where these are fewer.
    """
    about = describe(x_hat, images, Outside.without(context, images.train_index), either_sign=False)
    about["contribution"] = -torch.arange(len(x_hat))
    rows = about["natural"]
    true = is_true(about)[rows].cpu()
    evidence, hits = Record(), int(true.sum())
    most = min(hits, TRUSTED)
    for kind in PLAIN:
        score = about[kind][rows].cpu()
        ordered = true[score.argsort(descending=True, stable=True)]
        precision = int(ordered[:most].sum()) / max(most, 1)
        evidence[kind] = Record(right=int(ordered[:TRUSTED].sum()), precision=precision)
    return Record(natural=len(true), true=hits, evidence=evidence)


def thesis(judged: Record, arm: Record) -> Claim:
    """The paper's thesis on the published recipe, by what can be judged without its weights: it
    fails where some kind of evidence makes an adversary certain, `SURE` of what they trust most
    being true.

    Args:
        judged: see `judged_plainly`.
        arm: how far the recipe came.
    """
    best = max(kind.precision for kind in judged.evidence.values())
    share = judged.true / max(judged.natural, 1)
    ended = verdict(best < SURE) if judged.natural else "undecided"
    return claim(
        "adversary-cannot-tell",
        {**judged, "few": TRUSTED, "by_guess": TRUSTED * share, "came": came_text(arm)},
        verdict=if_in_full(arm, ended),
        value=best,
        null_value=share,
        margin=SURE - best,
    )
