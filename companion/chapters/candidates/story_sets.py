"""The chapter's sentences, with nulls; the rules were written before the runs that they judge."""

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
from companion.chapters.pictures import (
    HELD_OUT,
    PAGE,
    REFERENCE,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.chapters.pictures import NOISE as NOISE_COLOUR
from companion.store.results import Claim, Result, graded
from recon.scoring.metrics import ncc

ROUNDING = 1e-10  # a relative difference below this is rounding in float64


def claims(metrics: SetMetrics, _: SetSizes) -> list[Claim]:
    """Other sets: exact, to rounding and far away, and no photographs."""
    truth, noise, near, seen = metrics.sets.only(TRUTH, NOISE, PHOTOGRAPH, NOT_BLIND).values()
    exact = (
        max(noise.difference, noise.margin_change) <= ROUNDING
        and noise.smallest_multiplier >= 0
        and seen.difference > 1e6 * noise.difference
    )
    reached = near.far > metrics.n_train / 10 and near.natural > truth.natural / 2
    strict = noise.natural <= 0.1 * truth.natural and not reached
    return [
        claim(
            "counterfactual-exact",
            metrics,
            verdict=graded(exact, exact and noise.far >= metrics.n_train / 2, best="reproduced"),
            value=noise.difference,
            null_value=seen.difference,
        ),
        claim(
            "counterfactual-photographs",
            metrics,
            verdict=graded(strict, noise.natural <= 0.5 * truth.natural),
            value=noise.natural,
            null_value=metrics.null_natural,
        ),
    ]


def selected(_: SetMetrics, arrays: Tensors, n: int = 8) -> Tensors:
    """Training images, from the one whose pair goes farthest to the one whose pair goes least far,
    the two images of their pairs along noise, and the NCC of these with it, (2, n)."""
    x, v = arrays["x_train"], arrays[f"move_{NOISE}"]
    order = ncc(x + v, x).diagonal().argsort()
    picked = order[torch.linspace(0, len(x) - 1, min(n, len(x))).round().long()]
    x, v = x[picked], v[picked]
    pair = {"plus": x + v, "minus": x - v}
    scores = torch.stack([ncc(image, x).diagonal() for image in pair.values()])
    pictures = {
        name: levels(image + arrays["mean"]) for name, image in ({"train": x} | pair).items()
    }
    return pictures | {"ncc": scores}


@photographs
def plot_pairs(result: Result[SetMetrics]) -> Figure:
    """Training images (grey), and the two images of their pairs along noise."""
    labels = {"train": "training image x", "plus": "x + v", "minus": "x − v"}
    rows = [
        (label, result.figure(name), "grey" if name == "train" else "black")
        for name, label in labels.items()
    ]
    scores = [[f"{score:.2f}".replace("-", "−") for score in row] for row in result.figure("ncc")]
    return image_rows(rows, [[], *scores])


@chart
def plot_slide(result: Result[SetMetrics]) -> Figure:
    """Share of images that look natural, and sparsity of their edges, from the training images to
    the pairs.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 3.0))
    for ax, values in ((left, "natural"), (right, "edges")):
        for name, label, colour in (
            (NOISE, "towards noise", NOISE_COLOUR),
            (PHOTOGRAPH, "towards a\nphotograph", HELD_OUT),
        ):
            way = result.metrics.slides[name]
            ax.plot(way.ncc, way[values], "o-", ms=3.5, color=colour, label=label)
        ax.set(xlabel="NCC with the training image")
        ax.margins(x=0.02)
        ax.invert_xaxis()
    left.axhline(result.metrics.null_natural, color=REFERENCE, lw=0.8, ls=":")
    left.set(ylabel="share that looks natural", ylim=(-0.03, 1.03))
    right.set(ylabel="sparsity of the edges")
    right.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


FIGURES = {"pairs": plot_pairs, "slide": plot_slide}
