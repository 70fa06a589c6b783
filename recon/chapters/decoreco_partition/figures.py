"""Fig. 9: results beside their nearest start image and their nearest training image."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure

from recon.chapters.decoreco_partition.metrics import Metrics
from recon.chapters.pictures import count_label, image_rows, shown
from recon.scoring.matching import nearest, one_to_one
from recon.store.results import Result


def plot_partition(result: Result[Metrics], n: int = 8) -> Figure:
    """Fig. 9: results with their nearest image of the start partition, of the training set and, the null, of as many
    held-out images, for three searches, with how many of each have a training image above NCC 0.6, and how many of the
    best null."""
    rows: list[tuple[str, torch.Tensor, str]] = []
    titles: list[list[str]] = []
    variants = result.metrics.variants
    for name, label, found in (
        ("reference", "published\nrecipe", variants.reference),
        ("pixels", "ours,\nall pixels", variants.pixels),
        ("span", "ours,\nin the span", variants.span),
    ):
        x_hat = result.array("x_hat_partition" if name == "reference" else f"x_hat_{name}")
        start = result.array("x_init_partition" if name == "reference" else "x_init")
        picked = torch.linspace(0, len(x_hat) // 2, n).long()
        rows.append((count_label(label, found), shown(result, x_hat[picked]), "black"))
        titles.append([])
        for words, images in (
            ("nearest\nstart image", start),
            ("nearest\ntraining image", result.array("x_train")),
            ("null: nearest\nheld-out image", result.array("x_held_out")),
        ):
            match = nearest(x_hat[picked], images, "ncc")
            rows.append((words, shown(result, images[match.index]), "grey"))
            titles.append([f"{v:.2f}" for v in match.score])
    return image_rows(rows, titles)


def plot_front(result: Result[Metrics], n: int = 5) -> Figure:
    """Start → reconstruction → nearest training image → nearest held-out image (null): the n most alike to a training
    image of their own, and beside them the n that contribute most among those whose nearest training image is below NCC
    0.5."""
    x_hat, train, start = (result.array(key) for key in ("x_hat_span", "x_train", "start_span"))
    match, own = nearest(x_hat, train, "ncc"), one_to_one(train, x_hat)
    true = own.index[own.score.argsort(descending=True)[:n]]
    false = (match.score < 0.5).nonzero()[:, 0]
    false = false[result.array("contribution_span")[false].argsort(descending=True)[:n]]
    rows = torch.cat([true, false])
    held_out = result.array("x_held_out")
    null = nearest(x_hat[rows], held_out, "ncc")
    return image_rows(
        [
            ("start: another\nphotograph", shown(result, start[rows]), "none"),
            ("read out of\nthe weights", shown(result, x_hat[rows]), "black"),
            ("nearest\ntraining image", shown(result, train[match.index[rows]]), "grey"),
            ("null: nearest\nheld-out image", shown(result, held_out[null.index]), "grey"),
        ],
        [
            ["true"] * len(true) + ["false"] * len(false),
            [],
            [f"{v:.2f}" for v in match.score[rows]],
            [f"{v:.2f}" for v in null.score],
        ],
    )


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_partition, "front": plot_front}
