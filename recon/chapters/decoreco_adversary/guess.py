"""Be the adversary: up to twenty reconstructions to judge, and the reader's score beside chance and the machine."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.chapters.decoreco_adversary.metrics import Metrics
from recon.chapters.elements import data_uri, element
from recon.store.results import Result


def first_of_their_kind(pictures: Tensor) -> list[int]:
    """Rows of pictures (m, …) that equal no earlier one."""
    seen: set[bytes] = set()
    rows = []
    for k, picture in enumerate(pictures):
        if (key := picture.numpy().tobytes()) not in seen:
            seen.add(key)
            rows.append(k)
    return rows


def guess(result: Result[Metrics], seed: int = 0) -> str:
    """The element for a result of `decoreco-adversary`.

    Shown are the natural-looking candidates of DecoReco that the practised adversary trusts most in one network, one
    for each image that they resemble, shuffled.  The machine's score calls the more trusted half of them true.
    """
    x, nearest = result.array("trusted_decoreco"), result.array("trusted_decoreco_nearest")
    true, ncc = result.array("trusted_decoreco_true").bool(), result.array("trusted_decoreco_ncc")
    once = first_of_their_kind(nearest)
    x, nearest, true, ncc = x[once], nearest[once], true[once], ncc[once]
    separated = result.array("trusted_more_true").bool()
    n = len(true)
    machine = int((true == (torch.arange(n) < n // 2)).sum())
    said = (
        f"{int(true.sum())} of them are training images. The adversary of this chapter, who calls the half true that "
        f"they trust more, gets {machine} of {n} right. With separation, in another network, "
        f"{int(separated.sum())} of the "
        f"{len(separated)} they trust most are true."
    )
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    cards = "".join(
        f'<div class="card" data-true="{int(true[i])}"><img src="{data_uri(x[i])}" alt="Reconstruction {k}" '
        f'width="96" height="96"><span>{k}</span>'
        f'<div class="choice" role="group" aria-label="Reconstruction {k}" data-live hidden>'
        '<button type="button" aria-pressed="false">real</button>'
        '<button type="button" aria-pressed="false">false</button></div>'
        f'<span class="answer" hidden><img src="{data_uri(nearest[i])}" alt="Nearest training image of '
        f'reconstruction {k}" width="96" height="96">{"real" if true[i] else "false"}, NCC {ncc[i]:.2f}</span></div>'
        for k, i in enumerate(order, start=1)
    )
    answers = ", ".join(str(k) for k, i in enumerate(order, start=1) if true[i])
    answers = f"Numbers {answers} are real. {said} A coin gets {n // 2} of them right."
    body = (
        f"<p><strong>You are the adversary.</strong> Which of these {n} reconstructions show an image that the network "
        f'was trained on? A negative, light for dark, counts as false.</p><div class="cards">{cards}</div>'
        '<p class="verdict ask" role="status" aria-live="polite"></p><p class="foot ask">'
        '<button type="button" class="done" data-live hidden disabled>Show the answers</button> '
        '<button type="button" class="again" hidden>Try again</button> '
        '<a class="share" hidden href="#">A link that shows this score</a></p>'
        f"<details><summary>Answers in words</summary><p>{answers}</p></details>"
        f'<p class="paper">The answers, which the web page gives after yours: {answers}</p>'
    )
    return element("guess", "Game: be the adversary", body, {"said": said})
