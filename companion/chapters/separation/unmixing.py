"""From the rows of a first layer to its images, by hand: the slider multiplies small matrices in the browser."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from companion.chapters.elements import bytes_of, data_uri, element
from recon.scoring.matching import one_to_one, padded, rescale


def unmixing(basis: Tensor, rows: Tensor, stages: Sequence[tuple[str, Tensor]], images: Tensor, n: int = 10) -> str:
    """The element for one network.

    basis (r, d): spans the first layer · rows (≥ n, d) of that layer · stages: what was found after some steps, (k, d)
    each, with words for it; row k is always the same source · images (m, d) in [0, 1]: the training images, to choose
    the n sources that end nearest to one, and their sign.
    """
    last = stages[-1][1]
    match = one_to_one(images - images.mean(0), padded(torch.cat([last, -last]), len(images)))
    whose = match.score.argsort(descending=True)[:n]
    which, sign = match.index[whose] % len(last), 1 - 2 * (match.index[whose] // len(last))[:, None]
    norms = rows.norm(dim=1).argsort(descending=True)[:n]
    frames = [_coefficients(rows[norms], basis)]
    frames += [_coefficients(found[which] * sign, basis) for _, found in stages]
    low, high = basis.min().item(), basis.max().item()
    data = {
        "basis": bytes_of(basis, low, high),
        "low": low,
        "high": high,
        "rank": len(basis),
        "frames": [[[round(v, 3) for v in row] for row in frame.tolist()] for frame in frames],
        "said": ["rows of the first layer, as they are", *(words for words, _ in stages)],
    }
    canvases = "".join(f'<canvas width="32" height="32" aria-label="Picture {k}"></canvas>' for k in range(1, n + 1))
    truths = "".join(
        f'<img src="{data_uri(rescale(images[i]))}" alt="Training image {k}" width="32" height="32">'
        for k, i in enumerate(whose.tolist(), 1)
    )
    body = (
        f'<div class="tiles now ask" hidden>{canvases}</div>'
        f'<input type="range" min="0" max="{len(frames) - 1}" step="0.05" value="0" hidden '
        'aria-label="From the rows of the first layer to the separated images">'
        '<p class="said ask" role="status">Without scripts: the training images that separation finds.</p>'
        f'<p class="what">The training images:</p><div class="tiles">{truths}</div>'
    )
    return element(
        "unmixing",
        "Unmixing a first layer",
        body,
        data,
        ask="Move the slider from the rows of the first layer to the images.",
        paper="On the web page a slider goes from the rows of the first layer to the images, step by step.",
    )


def _coefficients(pictures: Tensor, basis: Tensor) -> Tensor:
    """Of pictures (k, d) in the basis (r, d), each row at unit length."""
    found = torch.linalg.lstsq(basis.mT.double(), pictures.mT.double()).solution.mT
    return torch.nn.functional.normalize(found)
