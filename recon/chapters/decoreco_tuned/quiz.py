"""The quiz of Figs. 6 and 7 as a page element: plain HTML and a few lines of script, no kernel, usable by keyboard."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from recon.chapters import ROOT
from recon.chapters.decoreco_tuned.metrics import Metrics
from recon.chapters.pictures import as_pixels, shown
from recon.scoring.matching import nearest
from recon.store.results import Result


@dataclass(frozen=True)
class Option:
    """One reconstruction (d,) in [0, 1], its nearest training image, that one's rank, and their NCC."""

    image: Tensor
    nearest: Tensor
    rank: int
    ncc: float


def choose_options(result: Result[Metrics], n: int = 5, among: int = 10, seed: int = 0) -> list[Option]:
    """n − 1 reconstructions with a training image among their `among` nearest images, and one without, shuffled.

    In both groups those that contribute most to explaining the weights; fewer options where a group is too small.
    """
    rank, x_hat, train = result.array("rank"), result.array("x_hat"), result.array("x_train")
    match = nearest(x_hat, train, "ncc")
    true, false = (rank <= among).nonzero()[:, 0][: n - 1], (rank > among).nonzero()[:, 0][:1]
    rows = torch.cat([true, false])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    return [
        Option(shown(result, x_hat[i]), shown(result, train[match.index[i]]), int(rank[i]), match.score[i].item())
        for i in rows.tolist()
    ]


def static(name: str) -> str:
    """A file of `book/_static`, to be put into a fragment: so that it also works in a notebook, without the book."""
    return (ROOT / "book" / "_static" / name).read_text(encoding="utf-8").strip()


def data_uri(image: Tensor) -> str:
    """A flat image in [0, 1] as a PNG data URI."""
    pixels = (as_pixels(image) * 255).round().astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def quiz_html(options: list[Option], among: int = 10, name: str = "recon-quiz") -> str:
    """The quiz as one HTML fragment.  Without scripts the answers open as a plain <details>."""
    style, script = static("quiz.css"), static("quiz.js")
    cards = "".join(_card(k, option, among) for k, option in enumerate(options, start=1))
    answers = "; ".join(
        f"{k}: rank {option.rank}{'' if option.rank <= among else ' (the odd one)'}"
        for k, option in enumerate(options, start=1)
    )
    return (
        f'<section id="{name}" class="recon-quiz" aria-label="Quiz: which reconstruction is not a training image?">'
        f"<style>{style}</style><p><strong>Which of these is not a training image?</strong> Choose one.</p>"
        f'<div class="cards">{cards}</div><p class="verdict" role="status" aria-live="polite"></p>'
        f'<button type="button" class="again" hidden>Try again</button>'
        f"<details class='plain'><summary>Answers in words</summary><p>{html.escape(answers)}</p></details>"
        f"<script>({script})(document.getElementById('{name}'))</script></section>"
    )


def _card(k: int, option: Option, among: int) -> str:
    odd = "true" if option.rank > among else "false"
    return (
        f'<button type="button" class="card" data-odd="{odd}" aria-pressed="false" aria-label="Reconstruction {k}">'
        f'<img src="{data_uri(option.image)}" alt="Reconstruction {k}" width="96" height="96">'
        f'<span class="answer" hidden><img src="{data_uri(option.nearest)}" '
        f'alt="Nearest training image of reconstruction {k}" width="96" height="96">'
        f"<span>rank {option.rank}, NCC {option.ncc:.2f}</span></span></button>"
    )
