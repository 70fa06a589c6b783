"""The sentences on the start from other photographs, each with the paper's value, ours, the nulls and a verdict."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure

from companion.chapters.decoreco_partition.experiment import Metrics, Sizes
from companion.chapters.pictures import count_label, image_rows, shown
from companion.chapters.reference_common import came_text, if_in_full
from companion.chapters.yardstick import LEVEL, blend_share, preference
from companion.store.results import Claim, Result, orders_below, verdict
from recon.scoring.matching import Competition, nearest


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """ "start" asks for more than twice as many nearer to the start partition as to the training images, in
    proportion to how many there are of each: of m start images and n training images chance has m / (m + n).  "moved"
    asks for a tenth of the results at most, and that more of them left their start for a training image than for a
    held-out one, which no blend prefers.  A null that never had that start could not leave it, so there is none.

    Undecided unless the recipe ran with the paper's full budget, converged or not.
    """
    arm = metrics.variants.reference
    m, stayed, moved = arm.m, arm.nearest_is_start_partition, arm.moved_to_training
    left = Competition(moved, arm.moved_to_held_out, 1.0, 1.0)
    p_value = preference(left, blend_share(metrics.n_train))
    some_few = p_value < LEVEL and moved - arm.moved_to_held_out <= 0.1 * m
    chance = m / (m + metrics.n_train)
    odds = stayed * metrics.n_train / max((m - stayed) * m, 1)
    how = f"by the published recipe, {came_text(arm)}"
    return [
        Claim(
            "decoreco-partition-start",
            "4.4, Fig. 9",
            "Started from another CIFAR partition, most results reflect the images of the initialisation.",
            "most (visual)",
            f"{stayed} of {m} are nearer to an image of the start partition than to any training image, "
            f"{arm.nearest_is_own_start} nearest to their own, {how}",
            f"by chance {chance:.0%}, as there are {m} images to start from and {metrics.n_train} to train on; "
            f"mean NCC {arm.ncc_to_start_partition:.2f} to the start, {arm.ncc_to_training:.2f} to "
            f"training and {arm.ncc_to_held_out:.2f} to held-out images",
            if_in_full(arm, verdict(odds > 2)),
            value=stayed / m,
            null_value=chance,
            margin=odds - 2,
        ),
        Claim(
            "decoreco-partition-moved",
            "4.4, Fig. 9",
            "A single training image appears among the results.",
            "1 of those shown",
            f"{moved} of {m} left their start for a training image (p = {p_value:.1g}), {how}",
            f"{arm.moved_to_held_out} left it for a held-out image",
            if_in_full(arm, verdict(some_few)),
            value=moved,
            null_value=arm.moved_to_held_out,
            margin=orders_below(p_value, LEVEL),
        ),
    ]


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
