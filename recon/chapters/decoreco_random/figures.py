"""Fig. 5: reconstructions beside their nearest images, each search with its null; and the energies."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.decoreco_random.metrics import Metrics, ReferenceMetrics
from recon.chapters.pictures import count_label, image_rows, on_white, shown
from recon.scoring.matching import nearest, one_to_one
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


START_LABELS = {"random": "N(0, 1)", "tuned": "tuned scale", "partition": "other images"}


def plot_reference(result: Result[ReferenceMetrics], n: int = 10) -> Figure:
    """The published recipe from every start: its best matches, one-to-one, and the training images they match."""
    train, rows, titles = result.array("x_train"), [], []
    for arm in result.metrics.arms:
        if arm.precision != "float32":
            continue
        x_hat = result.array(f"x_hat_{arm.start}_{arm.precision}")
        best = one_to_one(train, x_hat)
        picked = best.score.argsort(descending=True)[:n]
        label = count_label(f"from\n{START_LABELS[arm.start]}", arm)
        rows += [
            (label, shown(result, x_hat[best.index[picked]]), "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
        ]
        titles += [[f"{score:.2f}" for score in best.score[picked]], []]
    return image_rows(rows, titles)


def plot_descent(result: Result[ReferenceMetrics]) -> Figure:
    """Layer 1's energy, as a share of its norm, and how far the images moved, against the steps of every run."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    colours = dict(zip(START_LABELS, sns.color_palette("colorblind", 3), strict=True))
    for arm in result.metrics.arms:
        key, style = f"{arm.start}_{arm.precision}", "-" if arm.precision == "float32" else ":"
        label = START_LABELS[arm.start] + ("" if style == "-" else ", products in bfloat16")
        trace, steps = result.array(f"trace_{key}"), result.array(f"trace_steps_{key}")
        unit = arm.start_share[0] / trace[0, 0]
        left.plot(steps, trace[:, 0] * unit, style, color=colours[arm.start], label=label)
        right.plot(steps, trace[:, -1], style, color=colours[arm.start])
    left.axhline(result.metrics.net.truth_share[0], color="0.4", ls="--", label="the training images")
    left.set(xscale="log", yscale="log", xlabel="step", ylabel="layer 1: energy / ‖θ₁‖²")
    right.set(xscale="log", yscale="log", xlabel="step", ylabel="moved: ‖x − x_init‖ / ‖x_init‖, mean")
    left.legend(fontsize=7, loc="upper right")
    return on_white(figure)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_random, "energy": plot_random_energy}
REFERENCE_FIGURES: dict[str, Callable[[Result[ReferenceMetrics]], Figure]] = {
    "starts": plot_reference,
    "descent": plot_descent,
}
