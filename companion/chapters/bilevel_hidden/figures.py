"""The figure of the one-hidden-layer net's short steps; that of its starts is in `bilevel_pictures`."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from companion.chapters.bilevel_hidden.metrics import PathMetrics
from companion.chapters.bilevel_pictures import LABELS
from companion.chapters.pictures import image_rows
from companion.store.results import Result
from recon.scoring.matching import nearest


def plot_path_images(result: Result[PathMetrics], n: int = 8) -> Figure:
    """θ⁰ uniform: start, the last images that still look like it, and those at the end with the nearest training image
    and its L2 distance, from both starts; last, the null: held-out images and the training images nearest to them."""
    rows: list[tuple[str, torch.Tensor, str]] = []
    titles: list[list[str]] = []
    train = result.array("x_train")
    for start, of in (("truth", "x_train"), ("partition", "x_partition")):
        columns = torch.linspace(0, len(result.array(of)) - 1, n).round().long()
        path = result.metrics.paths["uniform"][start]
        for label, name, frame in (
            (f"{LABELS[start]} start", of, "none"),
            (
                f"step {path.alike.step}:\ndistance {path.alike.distance_sum:.3g}",
                f"alike_{start}_from_uniform",
                "black",
            ),
            (f"step {path.end.step}:\ndistance {path.end.distance_sum:.3g}", f"x_hat_{start}_from_uniform", "black"),
        ):
            rows.append((label, result.array(name)[columns], frame))
        _add_nearest(rows, titles, train)
    held_out = result.array("x_held_out")
    rows.append(("null: held-out\nimage", held_out[torch.linspace(0, len(held_out) - 1, n).round().long()], "none"))
    _add_nearest(rows, titles, train)
    return image_rows(rows, titles)


def _add_nearest(rows: list[tuple[str, torch.Tensor, str]], titles: list[list[str]], train: torch.Tensor) -> None:
    found = nearest(rows[-1][1], train, "l2")
    rows.append(("nearest\ntraining image", train[found.index], "grey"))
    titles += [[] for _ in range(len(rows) - 1 - len(titles))] + [[f"{d:.1f}" for d in found.score]]
