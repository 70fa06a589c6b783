"""Figures of appendix E: what noise leaves of an image, to two attackers, and what the attacker predicts."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.leakage_defences.metrics import Metrics, PriorMetrics, Privacy
from companion.chapters.leakage_defences.sizes import SMALL
from companion.chapters.pictures import (
    FREE,
    PAGE,
    REFERENCE,
    SERIES,
    Colour,
    chart,
    image_rows,
    note,
)
from companion.store.results import Result

COLOURS: dict[str, Colour] = dict(zip((*SMALL, "CNN2 V1", "CNN3 V2"), SERIES, strict=False))
USUAL = 8.0  # an ε of training that is called private in practice
STRIPS = (0, 3)  # of the images attacked, those that strips show
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)  # of noise, in strips


@chart
def plot_noise(result: Result[Metrics]) -> Figure:
    """Error of the most probable image against z, every image a dot, and what the adversary predicts (lines)."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    for name, rows in metrics.noise.items():
        z, predicted = [row.z for row in rows], [float(np.mean(row.predicted)) for row in rows]
        ax.plot(z, predicted, color=COLOURS[name], label=name)
        for row in rows:
            ax.plot([row.z] * len(row.mse), row.mse, ".", color=COLOURS[name], alpha=0.6)
    grey = float(np.mean(metrics.grey[SMALL[0]]))
    ax.set(xscale="log", yscale="log", ylim=(None, 1), xlabel="noise multiplier z", ylabel="mean squared error")
    ax.axhline(grey, color=REFERENCE, linestyle="--", label="a grey image\n(null)")
    _private(ax, metrics.privacy)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _private(ax: Axes, privacy: list[Privacy]) -> None:
    """A band over the noise that a usual training is called private with."""
    private = [row.z for row in privacy if row.training <= USUAL]
    if private:
        ax.axvspan(min(private), 1.3 * max(row.z for row in privacy), color=FREE, alpha=0.12, linewidth=0)
        note(ax, f"ε ≤ {USUAL:g}", (min(private), 1.0), (4, -8), FREE, high=True)


@chart
def plot_prior(result: Result[PriorMetrics]) -> Figure:
    """Error over a grey image's against z: with the prior of public photographs, every image a dot, and without."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    ax.set(xscale="log", xlabel="noise multiplier z", ylabel="error over a grey image's")
    for name, rows in metrics.noise.items():
        colour, grey = COLOURS[name], np.array(metrics.grey[name])
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
    _private(ax, metrics.privacy)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def plot_photographs(result: Result[PriorMetrics]) -> Figure:
    """Images of the fully connected network, two rows each: under more and more noise without the prior, and with."""
    name = SMALL[1]
    steps = [row.z for row in result.metrics.noise[name] if row.z in STEPS]
    truth, mean = result.array(f"truth {name}"), result.array(f"mean {name}")[0]
    rows: list[tuple[str, list[Tensor | None], str]] = []
    titles: list[list[str]] = []
    for k in (k for k in STRIPS if k < len(truth)):
        for key, words in (("blind", "knows single\npixels"), ("x_hat", "knows\nphotographs")):
            found = [result.array(f"{key} {name} {z:g}")[k].clamp(0, 1) for z in steps]
            first = not rows
            rows.append(
                (words, [truth[k] if key == "blind" else None, *found, mean if key == "x_hat" else None], "black")
            )
            errors = [f"{(each - truth[k]).square().mean().item():.3f}" for each in found]
            heads = [f"z = {z:g}\n{error}" for z, error in zip(steps, errors, strict=True)] if first else errors
            end = f"null\n{(mean - truth[k]).square().mean().item():.3f}" if key == "x_hat" else ""
            titles.append(["sent" if key == "blind" else "", *heads, end])
    return image_rows(rows, titles)


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"noise": plot_noise}
PRIOR_FIGURES: dict[str, Callable[[Result[PriorMetrics]], Figure]] = {
    "prior": plot_prior,
    "photographs": plot_photographs,
}
