"""Figs. 10 to 12 of Runkel et al. (2024): heatmaps over λ₁, λ₂ and lines, with the start's own distances; our maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.landscape.metrics import BilevelMetrics, BySet, DecorecoMetrics, Grid, RecipeMetrics
from recon.chapters.pictures import NEARER, PAGE, SERIES, STARTS, Colour, chart, end_labels, image_rows, letters_on
from recon.store.results import Result

SETS = {"truth": "training", "partition": "partition", "random": "noise"}
METHODS = {
    "bilevel": "bilevel",
    "pixels": "DecoReco, all pixels",
    "recipe": "DecoReco, reference",
    "unprojected": "DecoReco, our attack",
}


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


@chart
def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: the bilevel end points; below, the starts themselves."""
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(PAGE, 5.5))
    top = highest([metrics.distance, metrics.start_distance])
    heatmaps(axes[0], metrics.distance, metrics.lambda1, top, "end point", metrics.cells_converged)
    heatmaps(axes[1], metrics.start_distance, metrics.lambda1, top, "start")
    return figure


@chart
def plot_variants(result: Result[DecorecoMetrics]) -> Figure:
    """Fig. 10b: DecoReco by descent in all pixels, by the reference recipe and by our attack, beside bilevel on one
    scale; white corner: not converged."""
    methods = result.metrics.variants.methods()
    distance = {label: methods[name].distance for name, label in METHODS.items()}
    converged = [methods[name].cells_converged for name in METHODS]
    figure, axes = plt.subplots(len(METHODS), 3, figsize=(PAGE, 2.7 * len(METHODS)))
    top = highest(distance.values())
    for row, (label, found), ended in zip(axes, distance.items(), converged, strict=True):
        heatmaps(row, found, result.metrics.lambda1, top, label, ended)
    return figure


@chart
def plot_lines(result: Result[DecorecoMetrics]) -> Figure:
    """Figs. 11 and 12: along λ₁ at λ₂ = 1, along λ₂ at λ₁ = 1; bands one standard deviation over seeds; dotted: the
    start's own distances; full dots: converged in every seed."""
    lambdas = np.array(result.metrics.lambda1)
    side = len(lambdas)
    figure, axes = plt.subplots(2, len(METHODS), figsize=(PAGE, 4.8), sharey=True, sharex=True)
    methods = result.metrics.variants.methods()
    for column, (name, label) in enumerate(METHODS.items()):
        ended = np.array(methods[name].cells_converged) == 1
        for row, rival in enumerate(("partition", "random")):
            ax, done = axes[row, column], ended[:, -1] if rival == "partition" else ended[-1]
            ends: list[tuple[float, str, Colour]] = []
            for key in ("truth", rival):
                colour = STARTS[key]
                grids = (result.array(f"{name}_{prefix}{key}").numpy() for prefix in ("", "start_"))
                squares = (grid.reshape(-1, side, side) for grid in grids)
                cells, starts = (s[:, :, -1] if rival == "partition" else s[:, -1, :] for s in squares)
                mean, sd = cells.mean(0), cells.std(0, ddof=1) if len(cells) > 1 else 0 * cells[0]
                ax.plot(lambdas, mean, color=colour)
                for share, face in ((done, colour), (~done, "white")):
                    ax.plot(lambdas[share], mean[share], "o", mfc=face, mec=colour, markersize=5)
                ax.fill_between(lambdas, mean - sd, mean + sd, color=colour, alpha=0.2, linewidth=0)
                ax.plot(lambdas, starts.mean(0), color=colour, linestyle=":")
                ends.append((float(mean[-1]), f"to {SETS[key]}", colour))
            ax.set_xlabel("λ₁, at λ₂ = 1" if row == 0 else "λ₂, at λ₁ = 1")
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
            ax.set_title(label.replace(", ", ",\n") if row == 0 else "")
            if column == 0:
                ax.set_ylabel("mean L2 distance")
            if column == len(METHODS) - 1:
                end_labels(ax, ends)
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


@chart
def plot_fine(result: Result[BilevelMetrics]) -> Figure:
    """The affine net's landscape on the fine grid: energy of the starts for both objectives, where they end, how far
    they move."""
    grid = result.array("fine_grid").numpy()
    side = len(grid)
    truth, partition, random = (result.array(f"fine_{name}").numpy() for name in SETS)
    basin = np.argmin(np.stack([truth, partition, random]), axis=0).astype(float)
    stationarity = result.array("fine_stationarity_start_energy").numpy()
    panels = [
        (
            "start: log₁₀ of\nthe bilevel energy",
            np.log10(result.array("fine_start_energy").numpy().clip(1e-6)),
            "magma",
        ),
        ("start: log₁₀ of\nDecoReco's energy", np.log10(stationarity.clip(1e-6)), "magma"),
        ("how far it\nmoves (L2)", result.array("fine_moved").numpy(), "viridis"),
        ("end: distance to\nthe truth (L2)", truth, "viridis"),
        ("end: how much nearer\nthe truth than the partition", partition - truth, NEARER),
        ("end: nearest\nset", basin, ListedColormap([STARTS[name] for name in SETS])),
    ]
    figure, axes = plt.subplots(3, 2, figsize=(PAGE, 8.6), layout="constrained")
    for ax, (title, values, colours) in zip(axes.flat, panels, strict=True):
        image = np.asarray(values).reshape(side, side).T
        limit = np.abs(image).max() if colours is NEARER else None
        shown = ax.imshow(
            image,
            origin="lower",
            extent=(0, 1, 0, 1),
            cmap=colours,
            vmin=-limit if limit else None,
            vmax=limit,
            interpolation="nearest",
        )
        ax.set(title=title, xlabel="λ₁", ylabel="λ₂", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        bar = figure.colorbar(shown, ax=ax, pad=0.04)
        bar.outline.set_visible(False)
        if title.startswith("end: nearest"):
            shown.set_clim(-0.5, 2.5)
            bar.set_ticks([0, 1, 2], labels=list(SETS.values()))
    return figure


ROUTES = {
    "to_partition": ("truth → end from the partition", STARTS["partition"], "--"),
    "to_random": ("truth → end from noise", STARTS["random"], "--"),
    "box_partition": ("truth → partition, in [0, 1]", STARTS["partition"], "-"),
    "box_random": ("partition → noise, in [0, 1]", STARTS["random"], "-"),
}


@chart
def plot_connection(result: Result[BilevelMetrics]) -> Figure:
    """How far the classifier of every frame is from θ* after training from scratch: on four curves, and on the straight
    segments between their ends."""
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.6), sharey=True, layout="constrained")
    for ax, kind, title in zip(axes, ("straight", "error"), ("straight segment", "curve"), strict=True):
        for name, (label, colour, style) in ROUTES.items():
            error = result.array(f"walk_{name}_{kind}").numpy()
            ax.plot(np.linspace(0, 1, len(error)), error.clip(1e-17), style, color=colour, label=label)
        ax.set(yscale="log", xlabel="share of the way", title=title)
    axes[0].set_ylabel("‖θ(X) − θ*‖ / ‖θ*‖, retrained")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, handlelength=3)
    return figure


def plot_walk(result: Result[BilevelMetrics], frames: int = 7) -> Figure:
    """The same images of training sets along the way from the truth over the partition to noise; every row trains the
    same classifier, but for the printed relative error."""
    pictures, error = walk_frames(result)
    chosen = np.linspace(0, len(error) - 1, frames).round().astype(int).tolist()
    rows = [
        (f"{k / (len(error) - 1):.0%} of the way\n{f'{error[k]:.0e}' if error[k] else 'exact'}", pictures[k], "none")
        for k in chosen
    ]
    return image_rows(rows)


def walk_frames(result: Result[BilevelMetrics]) -> tuple[Tensor, list[float]]:
    """Both legs with pixels in [0, 1] as one: images (frames, k, d), and the error of every frame."""
    legs = [(result.array(f"walk_{name}_frames"), result.array(f"walk_{name}_error")) for name in list(ROUTES)[2:]]
    (first, first_error), (second, second_error) = legs
    return torch.cat([first, second[1:]]), [*first_error.tolist(), *second_error[1:].tolist()]


@chart
def plot_geometry(result: Result[DecorecoMetrics]) -> Figure:
    """Above: energy on the lines from the truth. Below: barriers on segments between end points. All relative to what
    separates noise from the truth."""
    labels = {
        "bilevel": "bilevel\n(affine net)",
        "affine": "DecoReco,\nsame affine net",
        "unprojected": "DecoReco,\nthree layers",
    }
    colours = dict(zip(labels, SERIES, strict=False))
    figure, axes = plt.subplots(3, 1, figsize=(PAGE, 7.4))
    for ax, name in zip(axes, ("partition", "random"), strict=False):
        ends: list[tuple[float, str, Colour]] = []
        for method, label in labels.items():
            energy = result.array(f"{method}_line_{name}").numpy()
            noise = result.array(f"{method}_line_random").numpy()
            energy = (energy - energy[:, :1]) / (noise[:, -1:] - noise[:, :1])
            for row in energy:
                ax.plot(np.linspace(0, 1, energy.shape[1]), row, color=colours[method], linewidth=1)
            ends.append((float(energy[:, -1].mean()), label, colours[method]))
        ax.set_xlabel(f"from the truth (0) to {'the partition' if name == 'partition' else 'noise'} (1)")
        ax.set_ylabel("energy above the\ntruth / that of noise")
        end_labels(ax, ends)
    data = [result.array(f"{method}_barrier").flatten().numpy().clip(1e-6) for method in labels]
    words = [label.replace("\n", " ") for label in labels.values()]
    axes[2].boxplot(data, tick_labels=words, widths=0.5, orientation="horizontal", medianprops={"color": SERIES[1]})
    axes[2].invert_yaxis()
    axes[2].set(xscale="log", xlabel="barrier between two end points")
    return figure
