"""Reconstructions beside the training images that they match, and what blends match as well."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure
from torch.nn.functional import normalize

from companion.chapters.decoreco_tuned.metrics import PublishedMetrics
from companion.chapters.pictures import FREE_NULLS, image_rows, shown
from companion.store.results import Result
from recon.scoring.matching import one_to_one


def plot_best(result: Result[PublishedMetrics], n: int = 7) -> Figure:
    """The n best one-to-one matches with their training images; and the n best of the null that matches most above NCC
    0.6 of those that need no attack, at the training images' contrast."""
    train, x_hat = result.array("x_train"), result.array("x_hat")
    match = one_to_one(train, x_hat)
    picked = match.score.argsort(descending=True)[:n]
    nulls = result.metrics.nulls
    name = max(FREE_NULLS, key=lambda each: nulls[each].ncc_06)
    free = train.norm(dim=1).median() * normalize(result.array(f"null_best_{name}")[:n], dim=1)
    words = FREE_NULLS[name].replace(" of ", "\nof ").replace("of training images", "of training\nimages")
    scores = match.score[picked], result.array(f"null_ncc_{name}")[:n]
    return image_rows(
        [
            ("best", shown(result, x_hat[match.index[picked]]), "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
            (f"null: best\n{words}", shown(result, free), "black"),
            ("training\nimage", shown(result, train[result.array(f"null_best_row_{name}")[:n]]), "grey"),
        ],
        [[f"{score:.2f}" for score in scores[0]], [], [f"{score:.2f}" for score in scores[1]], []],
    )


FIGURES: dict[str, Callable[[Result[PublishedMetrics]], Figure]] = {"matches": plot_best}
