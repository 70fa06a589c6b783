"""The chapter's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.candidates.experiment_sets import (
    NOISE,
    NOT_BLIND,
    PHOTOGRAPH,
    TRUTH,
    SetSizes,
)
from companion.chapters.candidates.experiment_sets import Metrics as SetMetrics
from companion.chapters.claims import claim
from companion.chapters.pictures import HELD_OUT as HELD_OUT_COLOUR
from companion.chapters.pictures import NOISE as NOISE_COLOUR
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.store.results import Claim, Result
from recon.scoring.metrics import ncc

NO = "not reproduced"
ROUNDING = 1e-10  # a relative difference below this is rounding in float64


def claims(metrics: SetMetrics, _: SetSizes) -> list[Claim]:
    """Other sets: exact, and no photographs."""
    return [exact(metrics), natural(metrics)]


def exact(metrics: SetMetrics) -> Claim:
    """To rounding, and far away."""
    ours, null, n = metrics.sets[NOISE], metrics.sets[NOT_BLIND], metrics.n_train
    kept = max(ours.difference, ours.margin_change) <= ROUNDING and ours.smallest_multiplier >= 0
    told = null.difference > 1e6 * ours.difference
    return claim(
        "counterfactual-exact",
        ours=(
            f"{ours.images} images with pixels in [0, 1]: the sum of gradients differs by"
            f" {ours.difference:.0e}, a margin by {ours.margin_change:.0e} at most;"
            f" {metrics.freedom.blind} free directions an image; of {ours.far} of {n} pairs both"
            " images correlate less than 0.7 with the training image between"
        ),
        null=(
            "pairs as far apart in directions that the network sees: sums differ by"
            f" {null.difference:.2g}"
        ),
        verdict=("reproduced" if ours.far >= n / 2 else "partly") if kept and told else NO,
        value=ours.difference,
        null_value=null.difference,
    )


def natural(metrics: SetMetrics) -> Claim:
    """What they look like."""
    truth, noise, near = (metrics.sets[name] for name in (TRUTH, NOISE, PHOTOGRAPH))
    reached = near.far > metrics.n_train / 10 and near.natural > truth.natural / 2
    strict = noise.natural <= 0.1 * truth.natural and not reached
    return claim(
        "counterfactual-photographs",
        ours=(
            f"{noise.natural:.0%} of the far pairs' images look natural; towards another photograph"
            f" {near.far} of {metrics.n_train} pairs get below NCC 0.7, the median stays at"
            f" {near.ncc:.2f}"
        ),
        null=f"training images {truth.natural:.0%}, other photographs {metrics.null_natural:.0%}",
        verdict="finding" if strict else "partly" if noise.natural <= 0.5 * truth.natural else NO,
        value=noise.natural,
        null_value=metrics.null_natural,
    )


def selected(_: SetMetrics, arrays: Tensors, n: int = 8) -> Tensors:
    """Training images, from the one whose pair goes farthest to the one whose pair goes least far,
    the two images of their pairs along noise, and the NCC of these with it, (2, n)."""
    x, v, mean = (arrays[name] for name in ("x_train", f"move_{NOISE}", "mean"))
    order = ncc(x + v, x).diagonal().argsort()
    picked = order[torch.linspace(0, len(x) - 1, min(n, len(x))).round().long()]
    x, v = (part[picked] for part in (x, v))
    scores = torch.stack([ncc(x + sign * v, x).diagonal() for sign in (1, -1)])
    images = {"train": x, "plus": x + v, "minus": x - v}
    return {name: levels(part + mean) for name, part in images.items()} | {"ncc": scores}


@photographs
def plot_pairs(result: Result[SetMetrics]) -> Figure:
    """Training images (grey), and the two images of their pairs along noise."""
    train, plus, minus = map(result.figure, ("train", "plus", "minus"))
    rows = [
        ("training image x", train, "grey"),
        ("x + v", plus, "black"),
        ("x − v", minus, "black"),
    ]
    titles: list[list[str]] = [[]]
    for scores in result.figure("ncc").tolist():
        titles.append([f"{score:.2f}".replace("-", "−") for score in scores])
    return image_rows(rows, titles)


@chart
def plot_slide(result: Result[SetMetrics]) -> Figure:
    """Share of images that look natural, and sparsity of their edges, from the training images to
    the pairs.
    """
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.0))
    ways = {
        "towards noise": (result.metrics.slides[NOISE], NOISE_COLOUR),
        "towards a\nphotograph": (result.metrics.slides[PHOTOGRAPH], HELD_OUT_COLOUR),
    }
    for ax, values in zip(axes, ("natural", "edges"), strict=True):
        for label, (way, colour) in ways.items():
            ax.plot(way.ncc, way[values], "o-", ms=3.5, color=colour, label=label)
        ax.set(xlabel="NCC with the training image")
        ax.margins(x=0.02)
        ax.invert_xaxis()
    axes[0].axhline(result.metrics.null_natural, color=REFERENCE, lw=0.8, ls=":")
    axes[0].set(ylabel="share that looks natural", ylim=(-0.03, 1.03))
    axes[1].set(ylabel="sparsity of the edges")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


FIGURES: dict[str, Callable[[Result[SetMetrics]], Figure]] = {
    "pairs": plot_pairs,
    "slide": plot_slide,
}
