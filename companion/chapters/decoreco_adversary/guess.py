"""Be the adversary: reconstructions to judge, as many true as false, and the reader's score beside
chance and the machine.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.elements import data_uri, element
from companion.chapters.separation_common import TRUE_NCC
from recon.scoring.matching import rescale
from recon.scoring.metrics import ncc

# |NCC| from which a candidate that is not true may be a poor copy of a training image: not in the
# game
UNCLEAR = 0.6


def dealt(likeness: Tensor, certainty: Tensor, n: int) -> list[int]:
    """Up to n true candidates and as many false ones, the true ones first.

    The true ones are evenly spaced from the most trusted to the least, and the false ones are the
    most trusted.

    Args:
        likeness, certainty (r,): |NCC| with the nearest training image, and the probability that
            the adversary gives.
    """
    order = certainty.argsort(descending=True, stable=True)
    real, false = order[likeness[order] > TRUE_NCC], order[likeness[order] < UNCLEAR]
    k = min(n, len(real), len(false))
    return [*real[torch.linspace(0, len(real) - 1, k).round().long()].tolist(), *false[:k].tolist()]


def guess(sources: Tensor, images: Tensor, certainty: Tensor, n: int = 6, seed: int = 0) -> str:
    """The element for separated sources (r, d) of a network, its training images (m, d) in [0, 1]
    and the adversary's certainty (r,). Shown are `dealt` ones, shuffled. The machine's score calls
    the more trusted half of them true.
    """
    likeness, nearest = (about := ncc(sources, images - images.mean(0))).abs().max(1)
    sign = about.gather(1, nearest[:, None]).sign()
    rows = dealt(likeness, certainty, n)
    half = len(rows) // 2
    trusted = sorted(rows, key=lambda row: -certainty[row].item())[:half]
    machine = 2 * len(set(trusted) & set(rows[:half]))
    said = (
        "The adversary of this chapter, who calls the half real that they trust more, gets"
        f" {machine} right."
    )
    x, truth = rescale(sign * sources + images.mean(0)), rescale(images)
    order = torch.randperm(2 * half, generator=torch.Generator().manual_seed(seed)).tolist()
    cards = "".join(
        f'<div class="card" data-true="{int(i < half)}"><img src="{data_uri(x[rows[i]])}"'
        f' alt="Reconstruction {k}" width="96" height="96"><span>{k}</span><div class="choice"'
        f' role="group" aria-label="Reconstruction {k}" data-live hidden><button type="button"'
        ' aria-pressed="false">real</button><button type="button"'
        ' aria-pressed="false">false</button></div><span class="answer" hidden><img'
        f' src="{data_uri(truth[nearest[rows[i]]])}" alt="Nearest training image of reconstruction'
        f' {k}" width="96" height="96">{"real" if i < half else "false"}, NCC'
        f" {likeness[rows[i]]:.2f}</span></div>"
        for k, i in enumerate(order, start=1)
    )
    real = ", ".join(str(k) for k, i in enumerate(order, start=1) if i < half)
    answers = f"Numbers {real} are real. A coin gets {half} of {2 * half} right. {said}"
    body = (
        f"<p><strong>You are the adversary.</strong> {half} of these {2 * half} reconstructions"
        " show an image that the "
        f'network was trained on. Which?</p><div class="cards">{cards}</div>'
        '<p class="verdict ask" role="status" aria-live="polite"></p><p class="foot ask">'
        '<button type="button" class="done" data-live hidden disabled>Show the answers</button> '
        '<button type="button" class="again" hidden>Try again</button> '
        '<a class="share" hidden href="#">A link that shows this score</a></p>'
        f"<details><summary>Answers in words</summary><p>{answers}</p></details>"
        f'<p class="paper">The answers, which the web page gives after yours: {answers}</p>'
    )
    return element("guess", "Game: be the adversary", body, {"said": said})
