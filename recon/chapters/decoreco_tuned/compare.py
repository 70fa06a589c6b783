"""A reconstruction laid over its nearest training image, with a slider between: plain HTML, no kernel, by keyboard."""

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
class Pair:
    """A reconstruction (d,) in [0, 1], its nearest training image, their NCC, and its place by contribution."""

    image: Tensor
    nearest: Tensor
    ncc: float
    place: int


@dataclass(frozen=True)
class Choice:
    """The pairs shown; how many candidates there are, and how many of them have an NCC above the threshold."""

    pairs: list[Pair]
    candidates: int
    above: int
    threshold: float


def choose_pairs(result: Result[Metrics], n: int = 3, threshold: float = 0.6) -> Choice:
    """n candidates whose nearest training image is above the threshold, n whose is not, in order of contribution.

    Nobody picks them: in each of both groups, sorted by how much a candidate contributes to explaining the weights,
    those at the quantiles 0 (most), 1/(n − 1), …, 1 (least); all of a group of n or fewer.
    """
    x_hat, train = result.array("x_hat"), result.array("x_train")
    order = result.array("contribution").argsort(descending=True, stable=True)
    match = nearest(x_hat[order], train, "ncc")
    above = match.score > threshold
    places = sorted(place for group in (above, ~above) for place in _quantiles(group.nonzero()[:, 0].tolist(), n))
    pairs = [
        Pair(
            shown(result, x_hat[order[place]]),
            shown(result, train[match.index[place]]),
            match.score[place].item(),
            place + 1,
        )
        for place in places
    ]
    return Choice(pairs, len(order), int(above.sum()), threshold)


def _quantiles(group: list[int], n: int) -> list[int]:
    """n members of a sorted group at evenly spaced quantiles, the ends included (n = 1: the first)."""
    if len(group) <= n:
        return group
    return [group[round(i)] for i in torch.linspace(0, len(group) - 1, n).tolist()]


def compare(result: Result[Metrics], n: int = 3) -> str:
    """Chapter 9's element: `compare_html` of the pairs that `choose_pairs` takes from this result."""
    choice = choose_pairs(result, n)
    note = (
        f"{choice.above} of the {choice.candidates} candidates have a training image above NCC {choice.threshold} "
        "(several may share one). Shown, by rule: of those and of the others, the candidates at evenly spaced "
        "quantiles of their contribution, from most to least."
    )
    return compare_html(choice.pairs, choice.threshold, note)


def compare_html(pairs: list[Pair], threshold: float = 0.6, note: str = "", name: str = "recon-compare") -> str:
    """The sliders as one HTML fragment.  Without scripts both images of a pair stand side by side."""
    figures = "".join(_figure(pair, threshold) for pair in pairs)
    body = f'<div class="pairs">{figures}</div><p class="note">{html.escape(note)}</p>'
    return element(
        "compare",
        "Reconstructions over their nearest training images",
        body,
        id=name,
        ask="Move a slider: left of it is the reconstruction, right of it its nearest training image.",
        paper="Left in each pair is the reconstruction, right its nearest training image. On the web page a slider "
        "lays one over the other.",
    )


def _figure(pair: Pair, threshold: float) -> str:
    verdict = "match" if pair.ncc > threshold else "no match"
    said = f"candidate {pair.place}"
    return (
        f'<figure class="pair"><div class="stage">'
        f'<img class="over" src="{data_uri(pair.image)}" alt="Reconstruction, {said}" width="160" height="160">'
        f'<img class="under" src="{data_uri(pair.nearest)}" alt="Nearest training image of {said}" '
        'width="160" height="160"></div>'
        '<div class="ends" aria-hidden="true"><span>reconstruction</span><span>training</span></div>'
        f'<input type="range" min="0" max="100" step="5" value="50" hidden aria-label="Reconstruction shown, {said}">'
        f"<figcaption>{said.capitalize()}: <strong>{verdict}</strong>, NCC {pair.ncc:.2f}</figcaption></figure>"
    )
