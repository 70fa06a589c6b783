"""§4.3's sentences on the affine net; thresholds are the null baselines or the paper's own values."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.bilevel_affine.experiment import Metrics, Sizes
from companion.chapters.bilevel_common import PAPER_AFFINE, STARTS
from companion.chapters.bilevel_pictures import plot_starts
from companion.chapters.pictures import FREE, PAGE, TRAIN, chart, end_labels
from companion.store.results import Claim, orders_below, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """A distance for each start, and what the images look like."""
    null = metrics.null
    held_out = f"held-out images: {null.held_out_nn_l2:.1f}"
    partition = metrics.partition
    return [
        *_distances(metrics),
        Claim(
            "affine-random-noise",
            "4.3 a, Fig. 1a",
            "From a random start no training image is reconstructed; the results look like random noise.",
            "noise (visual)",
            f"nearest training image {metrics.random.nn_train_l2:.1f} away in L2",
            held_out,
            verdict(metrics.random.nn_train_l2 > null.held_out_nn_l2),
            value=metrics.random.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=metrics.random.nn_train_l2 - null.held_out_nn_l2,
        ),
        Claim(
            "affine-truth-perfect",
            "4.3 b, Fig. 2a",
            "From the ground truth the affine classifier recovers the training data perfectly.",
            "perfect (visual)",
            f"moved {metrics.truth.moved_l2:.1e} in L2" if metrics.truth.moved_l2 else "moved 0 in L2",
            held_out,
            verdict(metrics.truth.nn_train_l2 <= 1e-3),
            value=metrics.truth.nn_train_l2,
            null_value=null.held_out_nn_l2,
        ),
        Claim(
            "affine-partition-is-start",
            "4.3 c, Fig. 3",
            "From another partition the images come back that were used for the initialisation, not the training data.",
            "visual",
            f"{partition.nearer_to_partition:.0%} nearer to the start partition; nearest training image "
            f"{partition.nn_train_l2:.1f} away",
            held_out,
            verdict(partition.nearer_to_partition == 1.0 and partition.nn_train_l2 >= 0.9 * null.held_out_nn_l2),
            value=partition.nn_train_l2,
            null_value=null.held_out_nn_l2,
            margin=partition.nn_train_l2 - 0.9 * null.held_out_nn_l2,
        ),
    ]


def _distances(metrics: Metrics) -> list[Claim]:
    """At most the paper's own, for each start."""
    return [
        Claim(
            f"affine-distance-{name}",
            "4.3, Table 1",
            f"The parameter distance after solving from the {name} start is small.",
            f"{PAPER_AFFINE[name]:.2e}",
            f"{reached.distance_sum:.1e}" + ("" if reached.converged else " (still falling)"),
            f"another data set: {metrics.null.other_data_sum:.2g}",
            verdict(reached.distance_sum <= PAPER_AFFINE[name]),
            value=reached.distance_sum,
            null_value=metrics.null.other_data_sum,
            margin=orders_below(reached.distance_sum, PAPER_AFFINE[name]),
        )
        for name, reached in metrics.only(*STARTS).items()
    ]


@chart
def plot_toy(energies: Sequence[float], apart: Sequence[float]) -> Figure:
    """Of an attack, after every step and in units of its start: the distance of the weights from the released ones, and
    that of the images from the training images."""
    figure, ax = plt.subplots(figsize=(PAGE, 2.6))
    ends = []
    for values, words, colour in ((energies, "weights", TRAIN), (apart, "images", FREE)):
        shares = [value / values[0] for value in values]
        ax.semilogy(shares, color=colour)
        ends.append((shares[-1], words, colour))
    ax.set(xlabel="outer step", ylabel="squared distance, start = 1", xlim=(0, len(energies) - 1))
    end_labels(ax, ends)
    return figure


FIGURES = {"starts": plot_starts}
