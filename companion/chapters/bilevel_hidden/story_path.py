"""§4.3's sentences on the one-hidden net, and our findings on the distance of Table 1.

Distances are those after the inner solver has settled.  A run that is still falling is not judged: "undecided" where a
sentence needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from companion.chapters.bilevel_hidden.experiment_path import Metrics as PathMetrics
from companion.chapters.bilevel_hidden.experiment_path import PathSizes
from companion.chapters.bilevel_pictures import LABELS
from companion.chapters.pictures import image_rows
from companion.store.record import Record
from companion.store.results import Claim, Result
from recon.scoring.matching import nearest

ALIKE, FALLEN = 0.9, 0.25  # NCC with the start; share of the distance to the released weights that has gone meanwhile


def claims(metrics: PathMetrics, _: PathSizes) -> list[Claim]:
    """What Figs. 2b and 4 show, on the way and at the end."""
    return [
        _on_the_way(
            "hidden-truth-resembles",
            "4.3 b, Fig. 2b",
            "From the ground truth even the one-hidden net recovers images resembling the training data.",
            "resembling (visual)",
            [by_start["truth"] for by_start in metrics.paths.values()],
            metrics,
        ),
        _on_the_way(
            "hidden-partition-is-start",
            "4.3 c, Fig. 4",
            "From another partition the images used for the initialisation come back, not the training data.",
            "visual",
            [by_start["partition"] for by_start in metrics.paths.values()],
            metrics,
        ),
    ]


def _on_the_way(
    name: str, section: str, sentence: str, paper: str, paths: Sequence[Record], metrics: PathMetrics
) -> Claim:
    """ "reproduced" where the images are still those of the start at the end, "depends on stopping" where they are so
    until the distance to the released weights has fallen by at least `FALLEN`, and no longer; "not reproduced" where
    they are gone before.  Alike: a mean NCC with the start of at least `ALIKE`."""
    end = min(path.end.ncc_with_start for path in paths)
    fallen = min(1 - path.alike.settled_sum / path.first_sum for path in paths)
    alike, last = paths[0].alike, paths[0].end
    on_the_way = "depends on stopping" if fallen >= FALLEN else "not reproduced"
    return Claim(
        name,
        section,
        sentence,
        paper,
        f"after {alike.step} steps of at most {metrics.relative_step:.0%} NCC with the start "
        f"{alike.ncc_with_start:.2f}, distance of the weights down by {fallen:.0%}; after {last.step} steps NCC "
        f"{end:.2f}, nearest training image {last.nn_train_l2:.1f} away",
        f"held-out images: {metrics.held_out_nn_l2:.1f}",
        "reproduced" if end >= ALIKE else on_the_way,
        value=end,
        null_value=ALIKE,
        margin=end - ALIKE if end >= ALIKE else fallen - FALLEN,
    )


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


FIGURES = {"images": plot_path_images}
