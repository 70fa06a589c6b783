"""The sentence of appendix E on an adversary who knows photographs, each with what decides it."""

from __future__ import annotations

from statistics import fmean as mean
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_defences.experiment import SMALL, AttackSizes
from companion.chapters.leakage_defences.experiment_prior import Metrics
from companion.chapters.leakage_defences.story import NO_BETTER, hidden_from, in_words
from companion.chapters.pictures import (
    FREE,
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.store.record import Record
from companion.store.results import Claim, Result, graded

TENTH = 0.1  # of the gradient's norm on every entry


def claims(metrics: Metrics, _: AttackSizes) -> list[Claim]:
    """Whether a tenth of the norm hides an image: what the weaker adversary is hidden from."""
    rows = {
        name: against_nulls(metrics, name, row)
        for name, noise in metrics.noise.items()
        for row in noise
        if row.z == TENTH
    }
    left = [row["left"] for row in rows.values()]
    return [
        claim(
            "prior-tenth",
            {"tenth": rows, "no_better": NO_BETTER},
            verdict=graded(*(share < NO_BETTER for share in left)) if rows else "undecided",
            value=max(left, default=None),
            null_value=NO_BETTER,
        )
    ]


def null_of(metrics: Metrics, name: str) -> float:
    """The lower typical error of two guesses that see no gradient: a grey image, and the mean of
    public ones.
    """
    return min(mean(metrics.grey[name]), mean(metrics.mean[name]))


def against_nulls(metrics: Metrics, name: str, row: Record) -> dict[str, Any]:
    """One network at one z: errors over those of `null_of`, and NCC."""
    null = null_of(metrics, name)
    return {
        "left": mean(row.mse) / null,
        "ncc": mean(row.ncc),
        "own": row.own,
        "images": len(row.ncc),
        "hides": in_words(hidden_from(metrics.noise[name], null)),
        "public": mean(metrics.mean[name]) / mean(metrics.grey[name]),
        "public_ncc": mean(metrics.mean_ncc[name]),
        "blind": mean(row.blind) / null,
        "blind_ncc": mean(row.blind_ncc),
    }


STRIPS = (0, 3)  # of the images attacked, those that strips show
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of noise, in strips


@chart
def plot_prior(result: Result[Metrics]) -> Figure:
    """Error over a grey image's against z: with the prior of public photographs, every image a dot,
    and without.
    """
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    ax.set(xscale="log", xlabel="noise multiplier z", ylabel="error over a grey image's")
    for (name, rows), colour in zip(metrics.noise.items(), SERIES, strict=False):
        grey = np.array(metrics.grey[name])
        z = [row.z for row in rows]
        ax.plot(z, [np.mean(row.mse) / grey.mean() for row in rows], color=colour, label=name)
        ax.plot(z, [np.mean(row.blind) / grey.mean() for row in rows], "--", color=colour)
        ax.plot(z, np.array([row.mse for row in rows]) / grey, ".", color=colour, alpha=0.4)
    first = next(iter(metrics.noise))
    mean = float(np.mean(metrics.mean[first]) / np.mean(metrics.grey[first]))
    ax.plot([], [], color=REFERENCE, label="knows photographs")
    ax.plot([], [], "--", color=REFERENCE, label="knows single\npixels")
    ax.set_ylim(bottom=0)
    ax.axhline(mean, color=FREE, linestyle=":", label="mean public\nimage (null)")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def drawn_steps(metrics: Metrics) -> list[Record]:
    """Of noise, in strips."""
    return [row for row in metrics.noise[SMALL[1]] if row.z in STEPS]


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """Images of the fully connected network, their most probable images without the prior and
    with it, (images, steps, d), and the mean of public images."""
    name, steps = SMALL[1], drawn_steps(metrics)
    truth, mean = arrays[f"truth {name}"], arrays[f"mean {name}"][0]
    rows = [k for k in STRIPS if k < len(truth)]
    images = {"truth": truth[rows], "mean": mean}
    for key in ("blind", "x_hat"):
        found = [arrays[f"{key} {name} {step.z:g}"][rows] for step in steps]
        images[key] = torch.stack(found, 1)
    return {key: levels(x) for key, x in images.items()}


@photographs
def plot_photographs(result: Result[Metrics]) -> Figure:
    """Images of the fully connected network, two rows each: under more and more noise without the
    prior, and with; above each its mean squared error."""
    metrics, steps = result.metrics, drawn_steps(result.metrics)
    truth, mean, blind, x_hat = map(result.figure, ("truth", "mean", "blind", "x_hat"))
    rows: list[tuple[str, list[Tensor | None], str]] = []
    titles: list[list[str]] = []
    for i, k in zip(range(len(truth)), STRIPS, strict=False):
        rows.append(("knows single\npixels", [truth[i], *blind[i], None], "black"))
        rows.append(("knows\nphotographs", [None, *x_hat[i], mean], "black"))
        titles.append(["sent", *(f"{step.blind[k]:.3f}" for step in steps), ""])
        null = f"null\n{metrics.mean[SMALL[1]][k]:.3f}"
        titles.append(["", *(f"{step.mse[k]:.3f}" for step in steps), null])
    heads = ["", *(f"z = {step.z:g}\n" for step in steps), ""]
    titles[0] = [head + error for head, error in zip(heads, titles[0], strict=True)]
    return image_rows(rows, titles)


FIGURES = {"prior": plot_prior, "photographs": plot_photographs}
