"""The adversary's problem in one gesture: the results of a run in three orders, of which two need
no training image.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from companion.chapters.elements import element, fragment, strip_uri
from companion.store.results import Result
from recon.images.pool import shape_of
from recon.scoring.matching import nearest, rescale
from recon.scoring.metrics import ncc
from recon.scoring.naturalness import signs

SHOWN = 20  # results of an order
FIRST = 10  # of them, that are counted
RECOVERED = (
    0.4  # SSIM with a training image above which a result shows it, as in Haim et al. (2022)
)
ALIKE = 0.8  # |NCC| of two results above which the later one of an order is left out


def distinct(score: Tensor, alike: Tensor) -> Tensor:
    """Indices of the first `SHOWN` by falling score (m,), without those that resemble one before
    them; alike (m, m) bool.
    """
    rows: list[int] = []
    for row in score.argsort(descending=True, stable=True).tolist():
        if len(rows) < SHOWN and not alike[row, rows].any():
            rows.append(row)
    return torch.tensor(rows)


def sorting(result: Result[Any]) -> str:
    """The element for a run that was just computed, with all of its results."""
    x = result.array("x_hat")
    train = result.array("x_train")
    mean = result.array("mean")
    shape = shape_of(x.shape[1])
    pictures = rescale(x + mean)
    likeness = nearest(pictures, train + mean, "ssim", shape).score
    scores = {
        "training images (the truth)": likeness,
        "weights explained": result.array("contribution"),
        "sharp edges": signs(x, shape)["edges"],
    }
    alike = ncc(x, x).abs() > ALIKE
    orders = {name: distinct(score, alike) for name, score in scores.items()}
    shown = torch.cat([*orders.values()]).unique()
    recovered = likeness > RECOVERED
    place = {row: k for k, row in enumerate(shown.tolist())}
    listed = {
        name: [(place[row], bool(recovered[row])) for row in rows.tolist()]
        for name, rows in orders.items()
    }
    body = fragment(
        Path(__file__).with_suffix(".html"),
        strip=strip_uri(pictures[shown][:, None]),
        orders=listed,
        first=FIRST,
    )
    return element(
        "sorting",
        "Results of DecoReco in three orders",
        body,
        style=f"--frames: {len(shown)}",
        ask="Sort by the truth, or by what the adversary knows.",
    )
