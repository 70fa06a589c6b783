"""Figures 1–4 of Runkel et al. (2024) beside a null row, for either classifier of chapter 3."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

from companion.chapters.bilevel_common import STARTS
from companion.chapters.pictures import image_rows
from companion.store.results import Result
from recon.scoring.matching import nearest

LABELS = {"random": "(a) random", "truth": "(b) truth", "partition": "(c) partition"}


def plot_starts(result: Result[Any]) -> Figure:
    """All three starts in one figure, the null below them: result above nearest training image."""
    train, held_out = result.array("x_train"), result.array("x_held_out")
    held_out = held_out[torch.linspace(0, len(held_out) - 1, 8).round().long()]
    sets = [(f"{LABELS[start]} start:\nresult", result.array(f"x_hat_{start}")[:8], "black") for start in STARTS]
    sets.append(("null: held-out\nimage", held_out, "none"))
    rows, titles = [], []
    for label, images, frame in sets:
        to_train = nearest(images, train, "l2")
        rows += [(label, images, frame), ("nearest\ntraining image", train[to_train.index], "grey")]
        titles += [[], [f"{d:.1f}" for d in to_train.score]]
    return image_rows(rows, titles)
