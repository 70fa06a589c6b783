"""Figures 1–4 of Runkel et al. (2024) beside a null row: both bilevel chapters show their images alike."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

from recon.chapters.bilevel_common import STARTS
from recon.chapters.pictures import STARTS as ROLES
from recon.chapters.pictures import image_rows
from recon.scoring.matching import nearest
from recon.store.results import Result

LABELS = {"random": "(a) random", "truth": "(b) truth", "partition": "(c) partition"}
COLOURS = {start: ROLES[start] for start in STARTS}


def plot_pairs(result: Result[Any], start: str, suffix: str = "", n: int = 8) -> Figure:
    """start → result (black) → nearest training image (grey) [→ nearest start image] → null, one column an image.

    suffix: "_from_theta_star" for the second inner start of `bilevel-hidden`.  The last row is the null baseline: a
    held-out image's distance to *its* nearest training image is printed above it.
    """
    x_hat, train = result.array(f"x_hat_{start}{suffix}"), result.array("x_train")
    x_init = result.array({"random": f"x_init_random{suffix}", "truth": "x_train", "partition": "x_partition"}[start])
    columns = torch.linspace(0, len(x_hat) - 1, n).round().long()
    to_train = nearest(x_hat[columns], train, "l2")
    rows = [
        ("start", x_init[columns], "none"),
        ("result", x_hat[columns], "black"),
        ("nearest\ntraining image", train[to_train.index], "grey"),
    ]
    titles = [[], [], [f"{d:.1f}" for d in to_train.score]]
    if start == "partition":
        partition = result.array("x_partition")
        to_partition = nearest(x_hat[columns], partition, "l2")
        rows.append(("nearest\nstart image", partition[to_partition.index], "grey"))
        titles.append([f"{d:.1f}" for d in to_partition.score])
    held_out = result.array("x_held_out")
    held_out = held_out[torch.linspace(0, len(held_out) - 1, n).round().long()]
    rows.append(("null: held-out\nimage", held_out, "none"))
    titles.append([f"{d:.1f}" for d in nearest(held_out, train, "l2").score])
    return image_rows(rows, titles)


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


def over_sets(values: list[float], style: str = ".2e") -> str:
    """One value for each image set: "a" or "a … b", from the least to the greatest."""
    least, greatest = (format(each, style) for each in (min(values), max(values)))
    return least if least == greatest else f"{least} … {greatest}"
