"""Be the adversary: reconstructions to judge, as many true as false, and the reader's score beside
chance and the machine.
"""

from pathlib import Path

import torch
from torch import Tensor

from companion.chapters.elements import data_uri, element, fragment
from companion.chapters.separation_common import TRUE_NCC
from recon.scoring.matching import rescale
from recon.scoring.metrics import ncc

# |NCC| from which a candidate that is not true may be a poor copy of a training image: not in the
# game
UNCLEAR = 0.6


def deal(likeness: Tensor, certainty: Tensor, n: int) -> list[int]:
    """Up to n true candidates and as many false ones, the true ones first.

    The true ones are evenly spaced from the most trusted to the least, and the false ones are the
    most trusted.

    Args:
        likeness, certainty (r,): |NCC| with the nearest training image, and the probability that
            the adversary gives.
    """
    order = certainty.argsort(descending=True, stable=True)
    real = order[likeness[order] > TRUE_NCC]
    false = order[likeness[order] < UNCLEAR]
    k = min(n, len(real), len(false))
    return [*real[torch.linspace(0, len(real) - 1, k).round().long()].tolist(), *false[:k].tolist()]


def guess(sources: Tensor, images: Tensor, certainty: Tensor, n: int = 6) -> str:
    """The element for separated sources (r, d) of a network, its training images (m, d) in [0, 1]
    and the adversary's certainty (r,). Shown are `deal` ones, shuffled. The machine's score calls
    the more trusted half of them true.
    """
    about = ncc(sources, images - images.mean(0))
    likeness, nearest = about.abs().max(1)
    sign = about.gather(1, nearest[:, None]).sign()
    rows = deal(likeness, certainty, n)
    half = len(rows) // 2
    trusted = sorted(rows, key=lambda row: -certainty[row].item())[:half]
    machine = 2 * len(set(trusted) & set(rows[:half]))
    score = (
        "The adversary of this chapter, who calls the half real that they trust more, gets"
        f" {machine} right."
    )
    x = rescale(sign * sources + images.mean(0))
    truth = rescale(images)
    order = torch.randperm(2 * half, generator=torch.Generator().manual_seed(0)).tolist()
    cards = [
        {
            "real": i < half,
            "image": data_uri(x[rows[i]]),
            "nearest": data_uri(truth[nearest[rows[i]]]),
            "ncc": f"{likeness[rows[i]]:.2f}",
        }
        for i in order
    ]
    real = ", ".join(str(k) for k, card in enumerate(cards, start=1) if card["real"])
    answers = f"Numbers {real} are real. A coin gets {half} of {2 * half} right. {score}"
    template = Path(__file__).with_suffix(".html")
    body = fragment(template, half=half, cards=cards, answers=answers)
    return element("guess", "Game: be the adversary", body, {"said": score})
