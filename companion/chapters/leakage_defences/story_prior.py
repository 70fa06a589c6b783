"""The sentence of appendix E on an adversary who knows photographs, each with what decides it."""

from __future__ import annotations

import math
from statistics import fmean as mean

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.leakage_defences.experiment import SMALL, AttackSizes
from companion.chapters.leakage_defences.experiment_prior import Metrics
from companion.chapters.leakage_defences.story import NO_BETTER, hidden_from
from companion.chapters.pictures import FREE, PAGE, REFERENCE, SERIES, chart, image_rows
from companion.store.results import Claim, Result

TENTH = 0.1  # of the gradient's norm on every entry
WHOLE = "photographs' mean and covariance"


def claims(metrics: Metrics, _: AttackSizes) -> list[Claim]:
    """Whether a tenth of the norm hides an image."""
    return [tenth_claim(metrics)]


def null_of(metrics: Metrics, name: str) -> float:
    """The lower typical error of two guesses that see no gradient: a grey image, and the mean of public ones."""
    return min(mean(metrics.grey[name]), mean(metrics.mean[name]))


def in_words(z: float | None) -> str:
    """Of the least z that hides."""
    return "no z that was tried" if z is None or math.isinf(z) else f"z = {z:g}"


def tenth_claim(metrics: Metrics) -> Claim:
    """What the weaker adversary is hidden from."""
    hides = {name: hidden_from(rows, null_of(metrics, name)) for name, rows in metrics.noise.items()}
    at = {name: next((row for row in rows if row.z == TENTH), None) for name, rows in metrics.noise.items()}
    rows = {name: row for name, row in at.items() if row is not None}
    left = {name: mean(row.mse) / null_of(metrics, name) for name, row in rows.items()}
    open_ = [share < NO_BETTER for share in left.values()]
    return Claim(
        "prior-tenth",
        "",
        f"A tenth of the gradient's norm on every entry does not hide an image from whoever knows {WHOLE}.",
        "",
        "error over the better null's at z = 0.1, and mean NCC with the image: "
        + "; ".join(f"{name} {left[name]:.2f} and {np.mean(row.ncc):.2f}" for name, row in rows.items())
        + "; nearer to its own image than to every public one: "
        + ", ".join(f"{name} {row.own} of {len(row.ncc)}" for name, row in rows.items())
        + f"; above {NO_BETTER:.0%} of the null's from "
        + ", ".join(f"{name} {in_words(z)}" for name, z in hides.items()),
        "the mean of the public images: error over a grey image's, and NCC, "
        + "; ".join(
            f"{name} {mean(metrics.mean[name]) / mean(metrics.grey[name]):.2f} and {np.mean(guessed):.2f}"
            for name, guessed in metrics.mean_ncc.items()
        )
        + "; without the prior, error over the better null's and NCC: "
        + "; ".join(
            f"{name} {mean(row.blind) / null_of(metrics, name):.2f} and {np.mean(row.blind_ncc):.2f}"
            for name, row in rows.items()
        ),
        "undecided" if not rows else ("finding" if all(open_) else "partly" if any(open_) else "not reproduced"),
        value=max(left.values(), default=None),
        null_value=NO_BETTER,
    )


STRIPS = (0, 3)  # of the images attacked, those that strips show
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of noise, in strips


@chart
def plot_prior(result: Result[Metrics]) -> Figure:
    """Error over a grey image's against z: with the prior of public photographs, every image a dot, and without."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    ax.set(xscale="log", xlabel="noise multiplier z", ylabel="error over a grey image's")
    for (name, rows), colour in zip(metrics.noise.items(), SERIES, strict=False):
        grey = np.array(metrics.grey[name])
        z = [row.z for row in rows]
        ax.plot(z, [np.mean(row.mse) / grey.mean() for row in rows], color=colour, label=name)
        ax.plot(z, [np.mean(row.blind) / grey.mean() for row in rows], "--", color=colour)
        for row in rows:
            ax.plot([row.z] * len(grey), np.array(row.mse) / grey, ".", color=colour, alpha=0.4)
    first = next(iter(metrics.noise))
    mean = float(np.mean(metrics.mean[first]) / np.mean(metrics.grey[first]))
    ax.plot([], [], color=REFERENCE, label="knows photographs")
    ax.plot([], [], "--", color=REFERENCE, label="knows single\npixels")
    ax.set_ylim(bottom=0)
    ax.axhline(mean, color=FREE, linestyle=":", label="mean public\nimage (null)")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def plot_photographs(result: Result[Metrics]) -> Figure:
    """Images of the fully connected network, two rows each: under more and more noise without the prior, and with."""
    name = SMALL[1]
    steps = [row.z for row in result.metrics.noise[name] if row.z in STEPS]
    truth, mean = result.array(f"truth {name}"), result.array(f"mean {name}")[0]
    rows: list[tuple[str, list[Tensor | None], str]] = []
    titles: list[list[str]] = []
    for k in (k for k in STRIPS if k < len(truth)):
        null = f"null\n{(mean - truth[k]).square().mean().item():.3f}"
        for key, words, left, right, ends in (
            ("blind", "knows single\npixels", truth[k], None, ("sent", "")),
            ("x_hat", "knows\nphotographs", None, mean, ("", null)),
        ):
            found = [result.array(f"{key} {name} {z:g}")[k].clamp(0, 1) for z in steps]
            errors = [f"{(each - truth[k]).square().mean().item():.3f}" for each in found]
            heads = errors if rows else [f"z = {z:g}\n{error}" for z, error in zip(steps, errors, strict=True)]
            rows.append((words, [left, *found, right], "black"))
            titles.append([ends[0], *heads, ends[1]])
    return image_rows(rows, titles)


FIGURES = {"prior": plot_prior, "photographs": plot_photographs}
