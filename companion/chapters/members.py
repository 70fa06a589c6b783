"""What the experiments on heads, fine-tunes and adapters share: parts of the pool, a sweep that
makes a table, how well a score tells members, and claims of a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.claims import claim
from companion.chapters.pictures import Colour, dot_rows
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from companion.store.results import Claim
from recon.images.pool import ImagePool
from recon.scoring.membership import DRAWS, FALSE_RATES, intervals
from recon.scoring.roc import auc, true_rate


class Cells(Record):
    """Metrics with a list `cells`; usual: fields that `at` looks for where nothing else is said."""

    usual: ClassVar[Mapping[str, object]] = {}

    def at(self, **of: object) -> Record | None:
        """The first cell with these fields, None where there is none."""
        wanted = {**self.usual, **of}
        return next((cell for cell in self.cells if cell.only(*wanted) == wanted), None)


def table(
    row: Callable[[Any, Context, Any], Any], sizes: Any, context: Context, label: str
) -> list[Record]:
    """What `row` makes of all cells of the sizes, which have names of their own."""
    cells = {cell.name: cell for cell in sizes.cells}
    units = context.sweep(partial(_unit, row, sizes, context, cells), list(cells), label)
    return [made for name in cells for made in unpacked(units[name])]


def _unit(
    row: Callable[..., Any], sizes: Any, context: Context, cells: dict[str, Any], name: str
) -> Tensors:
    return packed(row(sizes, context, cells[name]))


def labels_of(pool: ImagePool, classes: int) -> Tensor:
    """(N,) int64 of all images, in two classes or in all."""
    return torch.from_numpy(pool.y if classes == 2 else pool.labels).long()


def part_of(
    pool: ImagePool, name: str, free: np.ndarray, most: int, classes: int = 10
) -> tuple[Tensor, Tensor]:
    """Images (k, C, H, W) and labels (k,) of a part of the pool: the first `most` of those that are
    `free` (N,).
    """
    rows = np.flatnonzero((pool.part == name) & free)[:most]
    return pool.pixels(rows), labels_of(pool, classes)[rows]


def rates(score: Tensor, member: np.ndarray) -> Record:
    """auc, tpr_at_1pct and tpr_at_0.1pct: the area under the ROC curve of scores (k,), and the
    share of members above all but so many of the others.
    """
    s = score.double().numpy()
    shares = {f"tpr_at_{100 * rate:g}pct": true_rate(s, member, rate) for rate in FALSE_RATES}
    return Record(shares | {"auc": auc(s, member)})


def judged(score: Tensor, kind: np.ndarray, seed: int, draws: int = DRAWS) -> Record:
    """`rates` of members (kind 1) among others (0) · from_to_at_…: in 95 % of bootstraps over
    images · false_alarms: share of fresh images (2), if any, above all but 1 % of the others.
    """
    known = kind < 2
    fresh = kind != 1
    member = kind[known] == 1
    row = rates(score[known], member)
    between = intervals(score[known].double().numpy(), member, seed, draws)
    row |= {f"from_to_at_{100 * rate:g}pct": list(between[f"tpr_{rate:g}"]) for rate in FALSE_RATES}
    if (kind == 2).any():
        row["false_alarms"] = rates(score[fresh], kind[fresh] == 2).tpr_at_1pct
    return row


def finding(name: str, values: Mapping[str, Any], strict: bool = False, **measured: Any) -> Claim:
    """`claim` whose rule is that the `margin` is not negative, or, strictly, positive."""
    margin = measured["margin"]
    holds = margin > 0 if strict else margin >= 0
    return claim(name, values, verdict="finding" if holds else "not reproduced", **measured)


def attack_rows(
    cells: Sequence[Record],
    label: Callable[[Record], str],
    marks: Mapping[str, tuple[Any, str, Colour]],
    share: Callable[[Record, Any], float],
    accuracy: Callable[[Record], float],
) -> Figure:
    """A table of attacks as a figure: a row for each cell, and for each mark, (attack, marker,
    colour) by its label, `share` of cell and attack; the accuracy at the right.
    """
    shares = {
        name: ([share(cell, attack) for cell in cells], {"marker": marker, "color": colour})
        for name, (attack, marker, colour) in marks.items()
    }
    return dot_rows([*map(label, cells)], shares, [*map(accuracy, cells)])
