"""Fig. 9: results beside their nearest start image, their nearest training image and their nearest held-out image."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure

from companion.chapters.decoreco_partition.metrics import Metrics
from companion.chapters.pictures import count_label, image_rows, shown
from companion.store.results import Result
from recon.scoring.matching import nearest


def plot_partition(result: Result[Metrics], n: int = 8) -> Figure:
    """Fig. 9: n results of the published recipe with their nearest image of the start partition, of the training set
    and, the null, of as many held-out images; with how many have a training image above NCC 0.6, and how many of the
    best null."""
    x_hat = result.array("x_hat_partition")
    picked = torch.linspace(0, len(x_hat) // 2, n).long()
    recipe = count_label("published\nrecipe", result.metrics.variants.reference)
    rows: list[tuple[str, torch.Tensor, str]] = [(recipe, shown(result, x_hat[picked]), "black")]
    titles: list[list[str]] = [[]]
    for words, name in (
        ("nearest\nstart image", "x_init_partition"),
        ("nearest\ntraining image", "x_train"),
        ("null: nearest\nheld-out image", "x_held_out"),
    ):
        images = result.array(name)
        match = nearest(x_hat[picked], images, "ncc")
        rows.append((words, shown(result, images[match.index]), "grey"))
        titles.append([f"{v:.2f}" for v in match.score])
    return image_rows(rows, titles)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_partition}
