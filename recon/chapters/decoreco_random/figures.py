"""Fig. 5: reconstructions beside their nearest images, each search with its null; and the energies."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.decoreco_random.metrics import Metrics
from recon.chapters.pictures import count_label, image_rows, on_white, shown
from recon.scoring.matching import nearest
from recon.store.results import Result


def plot_random(result: Result[Metrics], n: int = 8) -> Figure:
    """Fig. 5: from the untuned start, by the reference recipe, by ours, projected afterwards, and within the span; with
    how many are above NCC 0.6, and how many of the best null."""
    train, rows, titles = result.array("x_train"), [], []
    variants = result.metrics.variants
    for name, label, found in (
        ("random", "published\nrecipe", variants.reference),
        ("pixels", "ours,\nall pixels", variants.pixels),
        ("cleaned", "projected\nafterwards", variants.pixels_then_span),
        ("span", "searched\nin the span", variants.span),
    ):
        x_hat = result.array(f"x_hat_{name}")
        best = nearest(train, x_hat, "ncc")
        picked = best.score.argsort(descending=True)[:n]
        images = shown(result, x_hat[best.index[picked]])
        rows += [
            (count_label(label, found), images, "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
        ]
        titles += [[f"{score:.2f}" for score in best.score[picked]], []]
    return image_rows(rows, titles)


def plot_random_energy(result: Result[Metrics], ax: Axes | None = None) -> Figure:
    """Energy against steps for both searches."""
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    for (name, label), colour in zip(
        (("pixels", "all pixels"), ("span", "span of w1")), sns.color_palette("colorblind", 2), strict=True
    ):
        ax.plot(result.array(f"history_{name}")[:, 0], color=colour, label=label)
    ax.set(yscale="log", xlabel="step", ylabel="energy (layer 1)")
    ax.legend(fontsize=8)
    return on_white(ax.figure)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_random, "energy": plot_random_energy}
