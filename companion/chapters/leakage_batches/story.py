"""Appendix C's sentence, with what decides it."""

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_batches.experiment import Metrics, Sizes
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    note,
    photographs,
)
from companion.store.kept import LEVELS
from companion.store.record import Record
from companion.store.results import Claim, Result, graded


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Whole batches."""
    return [solved_claim(metrics.batches)]


def solved_claim(rows: list[Record]) -> Claim:
    """A finding if every batch in which each image has a label of its own comes out whole, with a
    certificate; partly if any does.
    """
    alone = [row for row in rows if row.labels == row.n]
    more = [row for row in rows if row.labels < row.n and not row.same]
    found = sum(row.found == row.n for row in alone)
    others = sum(row.found for row in more)
    return claim(
        "batches-solved",
        {
            "found": found,
            "batches": len(alone),
            "most": max(row.n for row in alone),
            "others": others,
            "images": sum(row.n for row in more),
        },
        verdict=graded(*(row.found == row.n and row.certified for row in alone)),
        value=found,
        null_value=others,
    )


@chart
def plot_batches(result: Result[Metrics]) -> Figure:
    """Images of 8 × 8 pixels with as many labels as possible: the share of the unknowns that the
    gradient fixes, and the share of the images that are found, against the batch; a colour a
    network.
    """
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.0), sharey=True, layout="constrained")
    side = min(row.side for row in result.metrics.batches)
    small = [row for row in result.metrics.batches if row.side == side and not row.same]
    channels = sorted({row.channels for row in small})
    for count, colour, style in zip(channels, SERIES, ("o-", "s--"), strict=False):
        rows = [row for row in small if row.channels == count]
        sizes = [row.n for row in rows]
        fixed = [1 + row.missing / row.unknowns for row in rows]
        axes[0].plot(sizes, fixed, style, color=colour, label=f"{rows[0].equations:,} weights")
        axes[1].plot(sizes, [row.found / row.n for row in rows], style, color=colour)
    for ax, title in zip(axes, ("unknowns fixed", "images recovered"), strict=True):
        ax.axvline(result.metrics.classes, color=REFERENCE, linestyle=":")
        ax.set(xscale="log", xlabel="images in the batch", title=title, ylim=(-0.05, 1.05))
        ax.set_xticks(ticks := [1, 4, 10, 64], [str(n) for n in ticks])
        ax.minorticks_off()
    axes[0].set_ylabel("share")
    place = (result.metrics.classes, 0.5)
    note(axes[1], "as many images\nas classes", place, (-5, 0), REFERENCE, "right")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """Images of a batch, and what was found of them, if they were asked for; mean squared errors
    (3, n) of the mean image, of what was found, and of grey."""
    if "truth" not in arrays:
        return {}
    images = {name: levels(arrays[name]) for name in ("truth", "x_hat")}
    truth = arrays["truth"]
    grey = torch.full_like(arrays["truth"], 0.5)
    errors = [(x - truth).square().mean(1) for x in (truth.mean(0), arrays["x_hat"], grey)]
    return images | {"mse": torch.stack(errors)}


@photographs
def plot_images(result: Result[Metrics]) -> Figure:
    """One batch: the images, their mean, and Gauss–Newton's, with mean squared errors; grey."""
    truth = result.figure("truth")
    mean = (truth / LEVELS).mean(0).expand(truth.shape)
    grey = torch.full(truth.shape, 0.5)
    rows = [
        ("images", truth, "training"),
        ("their mean", mean, "baseline"),
        ("from the mean\ngradient", result.figure("x_hat"), "recovered"),
        ("a grey image\n(baseline)", grey, "baseline"),
    ]
    titles = [[f"{error:.2g}" for error in row] for row in result.figure("mse").tolist()]
    return image_rows(rows, [[], *titles])


FIGURES = {
    "batches": plot_batches,
    "images": plot_images,
}
