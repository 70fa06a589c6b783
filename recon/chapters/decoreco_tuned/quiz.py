"""The quiz of Figs. 6 and 7 as a page element: plain HTML and a few lines of script, no kernel, usable by keyboard."""

from __future__ import annotations

import html
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.chapters.decoreco_tuned.metrics import Metrics
from recon.chapters.elements import data_uri, element
from recon.chapters.pictures import shown
from recon.scoring.matching import nearest
from recon.store.results import Result


@dataclass(frozen=True)
class Option:
    """One reconstruction (d,) in [0, 1], its nearest training image, their NCC, whether that is more than chance
    explains, and its rank among all reconstructions, the most like a training image first."""

    image: Tensor
    nearest: Tensor
    ncc: float
    true: bool
    rank: int
    among: int


def choose_options(result: Result[Metrics], n: int = 5, seed: int = 0) -> list[Option]:
    """n − 1 natural-looking reconstructions that resemble a training image beyond chance, and one that does not.

    In both groups those that contribute most to explaining the weights; shuffled; fewer where a group is too small.
    See `recon.chapters.decoreco_tuned.ranking`.
    """
    x_hat, train, rank = result.array("x_hat"), result.array("x_train"), result.array("rank")
    natural, true = result.array("natural").bool(), result.array("true").bool()
    match = nearest(x_hat, train, "ncc")
    rows = torch.cat([(natural & true).nonzero()[: n - 1, 0], (natural & ~true).nonzero()[:1, 0]])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    return [
        Option(
            shown(result, x_hat[i]),
            shown(result, train[match.index[i]]),
            match.score[i].item(),
            bool(true[i]),
            int(rank[i]),
            len(rank),
        )
        for i in rows.tolist()
    ]


def quiz_html(options: list[Option], name: str = "recon-quiz") -> str:
    """The quiz as one HTML fragment.  Without scripts the answers open as a plain <details>."""
    cards = "".join(_card(k, option) for k, option in enumerate(options, start=1))
    answers = "; ".join(
        f"{k}: rank {option.rank} of {option.among}{'' if option.true else ' (the odd one)'}"
        for k, option in enumerate(options, start=1)
    )
    body = (
        '<p><strong>Which of these is not a training image?</strong> <span class="ask">Choose one.</span></p>'
        f'<div class="cards">{cards}</div><p class="verdict" role="status" aria-live="polite"></p>'
        f'<button type="button" class="again" hidden>Try again</button>'
        f"<details class='plain'><summary>Answers in words</summary><p>{html.escape(answers)}</p></details>"
        '<p class="paper">The answers, with the rank of each by likeness to a training image: '
        f"{html.escape(answers)}.</p>"
    )
    return element("quiz", "Quiz: which reconstruction is not a training image?", body, id=name)


def _card(k: int, option: Option) -> str:
    odd = "false" if option.true else "true"
    return (
        f'<button type="button" class="card" data-odd="{odd}" aria-pressed="false" aria-label="Reconstruction {k}">'
        f'<img src="{data_uri(option.image)}" alt="Reconstruction {k}" width="96" height="96">'
        f"<span>{k}</span>"
        f'<span class="answer" hidden><img src="{data_uri(option.nearest)}" '
        f'alt="Nearest training image of reconstruction {k}" width="96" height="96">'
        f"<span>rank {option.rank} of {option.among}, NCC {option.ncc:.2f}</span></span></button>"
    )
