"""Figs. 10 and 11 of Runkel et al. (2024), heatmaps over λ₁, λ₂ and lines, with the start's own distances; pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.landscape.metrics import BilevelMetrics, BySet, Grid, RecipeMetrics
from companion.chapters.pictures import PAGE, STARTS, chart, end_labels, heatmap, image_rows, letters_on
from companion.store.results import Result

SETS = {"truth": "training", "partition": "partition", "random": "noise"}


def heatmaps(
    axes: Sequence[Axes], distance: BySet, lambdas: list[float], top: float, label: str, converged: Grid | None = None
) -> None:
    """One row: distance to the nearest image of each set; λ₁ to the right, λ₂ upwards; values printed.  A cell whose
    search had not converged in every seed has a white corner."""
    side = len(lambdas)
    ticks = range(side), [f"{value:g}" for value in lambdas]
    for ax, (name, values_of_set) in zip(axes, distance.sets().items(), strict=True):
        values = np.array(values_of_set).T  # [λ₂][λ₁]
        image = ax.imshow(values, origin="lower", vmin=0, vmax=top, cmap="viridis")
        for (j, i), value in np.ndenumerate(values):
            colour = letters_on(image.to_rgba(value)[:3])
            ax.text(i, j, f"{value:.1f}", ha="center", va="center", color=colour, fontsize=8)
        ax.set_xticks(*ticks)
        ax.set_yticks(*ticks)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set(title=f"to the nearest\n{SETS[name]} image", xlabel="λ₁ (partition → truth)")
        for i, row in enumerate(converged or []):
            for j in (j for j, share in enumerate(row) if share < 1):
                ax.fill([i - 0.5, i - 0.25, i - 0.5], [j + 0.5, j + 0.5, j + 0.25], color="white")
    axes[0].set_ylabel(f"{label}\nλ₂ (noise → image)")


def highest(distances: Iterable[BySet]) -> float:
    """Of all, for a shared scale."""
    return max(float(np.max(values)) for distance in distances for values in distance.sets().values())


@heatmap
def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: the bilevel end points; below, the starts themselves."""
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(PAGE, 5.5))
    top = highest([metrics.distance, metrics.start_distance])
    heatmaps(axes[0], metrics.distance, metrics.lambda1, top, "end point", metrics.cells_converged)
    heatmaps(axes[1], metrics.start_distance, metrics.lambda1, top, "start")
    return figure


@chart
def plot_recipe(result: Result[RecipeMetrics]) -> Figure:
    """Fig. 11 by the published recipe: along λ₁ at λ₂ = 1, distances of the ends to training images and to the
    partition; dotted: of the starts."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.0))
    line = result.metrics.to_partition()
    lambdas, ends = [cell.lambda1 for cell in line], []
    for name in ("truth", "partition"):
        end, start = ([getattr(getattr(cell, which), name) for cell in line] for which in ("end", "start"))
        ax.plot(lambdas, end, color=STARTS[name], marker="o", markersize=5)
        ax.plot(lambdas, start, color=STARTS[name], linestyle=":")
        ends.append((end[-1], f"to the nearest\n{SETS[name]} image", STARTS[name]))
    ax.set(xlabel="λ₁ of the start, from the partition to the truth", ylabel="mean L2 distance", ylim=(0, None))
    ax.set_xticks(lambdas, [f"{value:g}" for value in lambdas])
    end_labels(ax, ends)
    return figure


def plot_recipe_images(result: Result[RecipeMetrics], n: int = 10) -> Figure:
    """Where the recipe begins and ends, from the training images, the partition and noise: n images of each, half of
    either class; ends cut to [0, 1]."""
    truth, rows = result.array("truth"), []
    places = [(cell.lambda1, cell.lambda2) for cell in result.metrics.cells]
    picked = torch.tensor([*range(n // 2), *range(len(truth) - (n - n // 2), len(truth))])
    for key, place in (("truth", (1, 1)), ("partition", (0, 1)), ("random", (1, 0))):
        ended = result.array("x_hat")[places.index(place)][picked].clamp(0, 1)
        rows += [(f"start:\n{SETS[key]}", result.array(key)[picked], "grey"), ("end", ended, "black")]
    return image_rows(rows)


LEGS = ("box_partition", "box_random")  # of the walk, with pixels in [0, 1]


def walk_frames(result: Result[BilevelMetrics]) -> tuple[Tensor, list[float]]:
    """Both legs with pixels in [0, 1] as one: images (frames, k, d), and the error of every frame."""
    legs = [(result.array(f"walk_{name}_frames"), result.array(f"walk_{name}_error")) for name in LEGS]
    (first, first_error), (second, second_error) = legs
    return torch.cat([first, second[1:]]), [*first_error.tolist(), *second_error[1:].tolist()]
