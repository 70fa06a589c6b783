"""The parts of chapter 6 that react to the reader: what opens the book, a threshold to drag, and
unmixing by hand.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from companion.chapters.elements import bytes_of, data_uri, element, fragment, seen_uri
from companion.chapters.pictures import BASELINE, RECOVERED
from companion.chapters.separation.experiment import Metrics
from companion.chapters.separation.story import matched, shown
from companion.store.results import Result
from recon.scoring.matching import one_to_one, padded, rescale

HERE = Path(__file__).parent
LOW = 0.3  # left end of the threshold's axis


def proof(result: Result[Metrics]) -> str:
    """What was recovered from the weights above its training image: ten images, evenly spaced from
    the best recovered to the worst, and the ten best without an attack.

    Nobody picks them. Every tile holds a candidate above the training image that it is matched
    with, and their NCC.
    """
    train, found, score = matched(result, "x_train")
    picked = torch.linspace(0, len(train) - 1, 10).round().long()
    scores = result.array("x_null_ncc")
    best = scores.argsort(descending=True)[:10]
    truth = (result.array("x_train") + result.array("mean")).clamp(0, 1)
    seen = (train[picked] + result.array("mean")).clamp(0, 1)
    free = shown(result, result.array("x_null")[best])
    body = fragment(
        HERE / "proof.html",
        n=len(train),
        ours=_tiles(shown(result, found[picked]), seen, score[picked]),
        free=_tiles(free, truth[best], scores[best]),
    )
    return element(
        "proof", "Training images, what was recovered from the weights, and what chance gives", body
    )


def _tiles(candidates: Tensor, truths: Tensor, scores: Tensor) -> list[tuple[str, str, float]]:
    return list(zip(map(seen_uri, candidates), map(seen_uri, truths), scores.tolist(), strict=True))


def threshold(result: Result[Metrics], start: float = 0.7) -> str:
    """How many training images lie above a threshold to drag, from `start` on, and how many without
    an attack.
    """
    train = matched(result, "x_train")[2]
    held = matched(result, "x_held_out")[2]
    # of the null that is best at each threshold, as the tables have it
    free = result.array("null_envelope")
    kinds = [
        (RECOVERED, "", "training images, recovered", train),
        (BASELINE, "7 4", "held-out images, same candidates", held),
        (BASELINE, "2 3", "training images, without an attack", free),
    ]
    lines = [
        {"colour": colour, "dash": dash, "label": label, "values": _rounded(values)}
        for colour, dash, label, values in kinds
    ]
    counts = ", ".join(f"{int((values > start).sum())} {label}" for _, _, label, values in kinds)
    body = fragment(HERE / "threshold.html", low=LOW, start=start, n=len(train), counts=counts)
    return element(
        "threshold",
        "How many images lie above a threshold",
        body,
        {"n": len(train), "low": LOW, "kinds": lines},
        ask="Drag the threshold, or move the slider below.",
        paper="On the web page the threshold, the black line, can be moved, and the counts follow.",
    )


def unmixing(
    basis: Tensor, rows: Tensor, stages: Sequence[tuple[str, Tensor]], images: Tensor, n: int = 10
) -> str:
    """From the rows of a first layer to its images; the slider multiplies small matrices in the
    browser.

    Args:
        basis (r, d): spans the first layer.
        rows (≥ n, d) of that layer.
        stages: what was found after some steps, (k, d) each, with words for it; row k is always the
            same source.
        images (m, d) in [0, 1]: the training images, to choose the n sources that end nearest to
            one, and their sign.
    """
    last = stages[-1][1]
    match = one_to_one(images - images.mean(0), padded(torch.cat([last, -last]), len(images)))
    whose = match.score.argsort(descending=True)[:n]
    which = match.index[whose] % len(last)
    sign = 1 - 2 * (match.index[whose] // len(last))[:, None]
    norms = rows.norm(dim=1).argsort(descending=True)[:n]
    frames = [_coefficients(rows[norms], basis)]
    frames += [_coefficients(found[which] * sign, basis) for _, found in stages]
    low = basis.min().item()
    high = basis.max().item()
    data = {
        "basis": bytes_of(basis, low, high),
        "low": low,
        "high": high,
        "rank": len(basis),
        "frames": [*map(_rounded, frames)],
        "said": ["rows of the first layer, as they are", *(words for words, _ in stages)],
    }
    truths = [data_uri(rescale(images[i])) for i in whose.tolist()]
    body = fragment(HERE / "unmixing.html", truths=truths, last=len(frames) - 1)
    return element(
        "unmixing",
        "Unmixing a first layer",
        body,
        data,
        ask="Move the slider from the rows of the first layer to the images.",
        paper=(
            "On the web page a slider goes from the rows of the first layer to the images, step by"
            " step."
        ),
    )


def _rounded(values: Tensor) -> list[Any]:
    return values.double().round(decimals=3).tolist()


def _coefficients(pictures: Tensor, basis: Tensor) -> Tensor:
    """Of pictures (k, d) in the basis (r, d), each row at unit length."""
    found = torch.linalg.lstsq(basis.mT.double(), pictures.mT.double()).solution.mT
    return normalize(found)
