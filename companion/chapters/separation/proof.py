"""The picture that opens the book: what was read out of the weights above what was put in, and the best by chance."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.elements import element, seen_uri
from companion.chapters.separation.experiment import Metrics
from companion.chapters.separation.story import matched, shown
from companion.store.results import Result


def proof(result: Result[Metrics], n: int = 10) -> str:
    """n training images, evenly spaced from the best recovered to the worst, and the n best without an attack.

    Nobody picks them.  Every tile holds a candidate above the training image that it is matched with, and their NCC.
    """
    train, found, score = matched(result, "x_train")
    picked = torch.linspace(0, len(train) - 1, n).round().long()
    scores = result.array("x_null_ncc")
    free = scores.argsort(descending=True)[:n]
    truth = (result.array("x_train") + result.array("mean")).clamp(0, 1)
    ours = _tiles(
        shown(result, found[picked]), (train[picked] + result.array("mean")).clamp(0, 1), score[picked], "Read out"
    )
    none = _tiles(shown(result, result.array("x_null")[free]), truth[free], scores[free], "Without an attack")
    key = '<strong class="truth">the training image</strong>'
    body = (
        f'<p><strong class="found">Read out of the weights</strong>, above {key}: {n} of {len(train)}, evenly spaced '
        f'from the best to the worst, with their correlation</p><div class="tiles">{ours}</div>'
        f'<p><strong class="chance">The best without an attack</strong>, above {key} that it resembles most</p>'
        f'<div class="tiles free">{none}</div>'
    )
    return element("proof", "Training images, what was read out of the weights, and what chance gives", body)


def _tiles(candidates: Tensor, truths: Tensor, scores: Tensor, said: str) -> str:
    return "".join(
        f'<figure><img src="{seen_uri(found)}" alt="{said}, {k}" width="32" height="32">'
        f'<img src="{seen_uri(true)}" alt="Its training image" width="32" height="32">'
        f"<figcaption>{score:.2f}</figcaption></figure>"
        for k, (found, true, score) in enumerate(zip(candidates, truths, scores.tolist(), strict=True), 1)
    )
