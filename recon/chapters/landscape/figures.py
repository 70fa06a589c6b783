"""Figs. 10 to 12 of Runkel et al. (2024): heatmaps over λ₁, λ₂ and lines, with the start's own distances; our maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.landscape.metrics import BilevelMetrics, BySet, DecorecoMetrics, Grid
from recon.chapters.pictures import image_rows, on_white
from recon.store.results import Result

SETS = {"truth": "training", "partition": "partition", "random": "noise"}
METHODS = {
    "bilevel": "bilevel",
    "pixels": "DecoReco, all pixels",
    "recipe": "DecoReco, reference",
    "unprojected": "DecoReco, our attack",
}
COLOURS = dict(zip(SETS, ("#d62728", "#2ca02c", "#1f77b4"), strict=True))  # red, green, blue as in the paper


def heatmaps(
    axes: Sequence[Axes], distance: BySet, lambdas: list[float], top: float, label: str, converged: Grid | None = None
) -> None:
    """One row: distance to the nearest image of each set; λ₁ to the right, λ₂ upwards; values printed.  A cell whose
    search had not converged in every seed has a white corner."""
    for ax, (name, values_of_set) in zip(axes, distance.sets().items(), strict=True):
        values = np.array(values_of_set).T[::-1]  # [λ₂ from 1 to 0][λ₁]
        sns.heatmap(
            values,
            vmin=0,
            vmax=top,
            ax=ax,
            cmap="viridis",
            annot=True,
            fmt=".1f",
            annot_kws={"size": 8},
            cbar=False,
            square=True,
            xticklabels=[f"{v:g}" for v in lambdas],
            yticklabels=[f"{v:g}" for v in reversed(lambdas)],
        )
        ax.set(title=f"to the nearest {SETS[name]} image", xlabel="λ₁  (partition → truth)")
        side = len(lambdas)
        for i, row in enumerate(converged or []):
            for top_edge in (side - 1 - j for j, share in enumerate(row) if share < 1):
                ax.fill([i, i + 0.25, i], [top_edge, top_edge, top_edge + 0.25], color="white")
    axes[0].set_ylabel(f"{label}\nλ₂  (noise → image)")


def highest(distances: Iterable[BySet]) -> float:
    """Of all, for a shared scale."""
    return max(float(np.max(values)) for distance in distances for values in distance.sets().values())


def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: the bilevel end points; below, the starts themselves."""
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(10, 7))
    top = highest([metrics.distance, metrics.start_distance])
    heatmaps(axes[0], metrics.distance, metrics.lambda1, top, "end point", metrics.cells_converged)
    heatmaps(axes[1], metrics.start_distance, metrics.lambda1, top, "start")
    return finished(figure)


def plot_variants(result: Result[DecorecoMetrics]) -> Figure:
    """Fig. 10b: DecoReco by descent in all pixels, by the reference recipe and by our attack, beside bilevel on one
    scale; white corner: not converged."""
    methods = result.metrics.variants.methods()
    distance = {label: methods[name].distance for name, label in METHODS.items()}
    converged = [methods[name].cells_converged for name in METHODS]
    figure, axes = plt.subplots(len(METHODS), 3, figsize=(10, 3.4 * len(METHODS)))
    top = highest(distance.values())
    for row, (label, found), ended in zip(axes, distance.items(), converged, strict=True):
        heatmaps(row, found, result.metrics.lambda1, top, label, ended)
    return finished(figure)


def plot_lines(result: Result[DecorecoMetrics]) -> Figure:
    """Figs. 11 and 12: along λ₁ at λ₂ = 1, along λ₂ at λ₁ = 1; bands one standard deviation over seeds; dotted: the
    start's own distances; full dots: converged in every seed."""
    lambdas = np.array(result.metrics.lambda1)
    side = len(lambdas)
    figure, axes = plt.subplots(2, len(METHODS), figsize=(12, 6), sharey=True, sharex=True)
    methods = result.metrics.variants.methods()
    for column, (name, label) in enumerate(METHODS.items()):
        ended = np.array(methods[name].cells_converged) == 1
        for row, rival in enumerate(("partition", "random")):
            ax, done = axes[row, column], ended[:, -1] if rival == "partition" else ended[-1]
            for key in ("truth", rival):
                grids = (result.array(f"{name}_{prefix}{key}").numpy() for prefix in ("", "start_"))
                squares = (grid.reshape(-1, side, side) for grid in grids)
                ends, starts = (s[:, :, -1] if rival == "partition" else s[:, -1, :] for s in squares)
                mean, sd = ends.mean(0), ends.std(0, ddof=1) if len(ends) > 1 else 0 * ends[0]
                ax.plot(lambdas, mean, color=COLOURS[key], label=f"to {SETS[key]}")
                for share, face in ((done, COLOURS[key]), (~done, "white")):
                    dots = {"markerfacecolor": face, "markeredgecolor": COLOURS[key], "markersize": 5}
                    ax.plot(lambdas[share], mean[share], "o", **dots)
                ax.fill_between(lambdas, mean - sd, mean + sd, color=COLOURS[key], alpha=0.2)
                ax.plot(lambdas, starts.mean(0), color=COLOURS[key], linestyle=":")
            ax.set_xlabel("λ₁, at λ₂ = 1" if row == 0 else "λ₂, at λ₁ = 1")
            ax.set_title(label if row == 0 else "")
            if column == 0:
                ax.set_ylabel("mean L2 distance")
            ax.legend(fontsize=7)
    return finished(figure)


def plot_fine(result: Result[BilevelMetrics]) -> Figure:
    """The affine net's landscape on the fine grid: energy of the starts for both objectives, where they end, how far
    they move."""
    grid = result.array("fine_grid").numpy()
    side = len(grid)
    truth, partition, random = (result.array(f"fine_{name}").numpy() for name in SETS)
    basin = np.argmin(np.stack([truth, partition, random]), axis=0).astype(float)
    stationarity = result.array("fine_stationarity_start_energy").numpy()
    panels = [
        ("start: bilevel energy", np.log10(result.array("fine_start_energy").numpy().clip(1e-6)), "magma"),
        ("start: DecoReco's energy", np.log10(stationarity.clip(1e-6)), "magma"),
        ("how far it moves (L2)", result.array("fine_moved").numpy(), "viridis"),
        ("end: L2 to the truth", truth, "viridis"),
        ("end: truth nearer by", partition - truth, "RdYlGn"),
        ("end: nearest set", basin, ListedColormap(list(COLOURS.values()))),
    ]
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.6))
    for ax, (title, values, colours) in zip(axes.flat, panels, strict=True):
        image = np.asarray(values).reshape(side, side).T
        limit = np.abs(image).max() if "nearer by" in title else None
        shown = ax.imshow(
            image,
            origin="lower",
            extent=(0, 1, 0, 1),
            cmap=colours,
            vmin=-limit if limit else None,
            vmax=limit,
            interpolation="nearest",
        )
        ax.set(title=title, xlabel="λ₁", ylabel="λ₂")
        if title == "end: nearest set":
            shown.set_clim(-0.5, 2.5)
            bar = figure.colorbar(shown, ax=ax, ticks=[0, 1, 2])
            bar.ax.set_yticklabels(SETS.values())
        else:
            figure.colorbar(shown, ax=ax, label="log₁₀" if "energy" in title else None)
    return finished(figure)


ROUTES = {
    "to_partition": ("truth → end from the partition", "#0173b2", "--"),
    "to_random": ("truth → end from noise", "#de8f05", "--"),
    "box_partition": ("truth → partition, in [0, 1]", "#029e73", "-"),
    "box_random": ("partition → noise, in [0, 1]", "#cc78bc", "-"),
}


def plot_connection(result: Result[BilevelMetrics]) -> Figure:
    """How far the classifier of every frame is from θ* after training from scratch: on four curves, and on the straight
    segments between their ends."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for ax, kind, title in zip(axes, ("straight", "error"), ("straight segment", "curve"), strict=True):
        for name, (label, colour, style) in ROUTES.items():
            error = result.array(f"walk_{name}_{kind}").numpy()
            ax.plot(np.linspace(0, 1, len(error)), error.clip(1e-17), style, color=colour, label=label)
        ax.set(yscale="log", xlabel="share of the way", title=title)
    axes[0].set_ylabel("‖θ(X) − θ*‖ / ‖θ*‖, retrained")
    axes[0].legend(fontsize=7)
    return finished(figure)


def plot_walk(result: Result[BilevelMetrics], frames: int = 7) -> Figure:
    """The same images of training sets along the way from the truth over the partition to noise; every row trains the
    same classifier, but for the printed relative error."""
    pictures, error = walk_frames(result)
    chosen = np.linspace(0, len(error) - 1, frames).round().astype(int).tolist()
    rows = [(f"{k / (len(error) - 1):.0%} of the way\n{error[k]:.0e}", pictures[k], "none") for k in chosen]
    return image_rows(rows)


def walk_frames(result: Result[BilevelMetrics]) -> tuple[Tensor, list[float]]:
    """Both legs with pixels in [0, 1] as one: images (frames, k, d), and the error of every frame."""
    legs = [(result.array(f"walk_{name}_frames"), result.array(f"walk_{name}_error")) for name in list(ROUTES)[2:]]
    (first, first_error), (second, second_error) = legs
    return torch.cat([first, second[1:]]), [*first_error.tolist(), *second_error[1:].tolist()]


def plot_geometry(result: Result[DecorecoMetrics]) -> Figure:
    """Left: energy on the lines from the truth. Right: barriers on segments between end points. All relative to what
    separates noise from the truth."""
    labels = {
        "bilevel": "bilevel (affine net)",
        "affine": "DecoReco, same affine net",
        "unprojected": "DecoReco, three layers",
    }
    colours = dict(zip(labels, sns.color_palette("colorblind", len(labels)), strict=True))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6))
    for ax, name in zip(axes, ("partition", "random"), strict=False):
        for method, label in labels.items():
            energy = result.array(f"{method}_line_{name}").numpy()
            noise = result.array(f"{method}_line_random").numpy()
            energy = (energy - energy[:, :1]) / (noise[:, -1:] - noise[:, :1])
            t = np.linspace(0, 1, energy.shape[1])
            for k, row in enumerate(energy):
                ax.plot(t, row, color=colours[method], linewidth=1, label=label if k == 0 else None)
        ax.set_xlabel(f"from the truth to {'the partition' if name == 'partition' else 'noise'}")
        ax.legend(fontsize=7)
    axes[0].set_ylabel("energy above the truth / that of noise")
    data = [result.array(f"{method}_barrier").flatten().numpy().clip(1e-6) for method in labels]
    axes[2].boxplot(data, tick_labels=["bilevel", "DecoReco,\nsame net", "DecoReco,\nthree layers"], widths=0.6)
    axes[2].set(yscale="log", title="barriers between end points")
    return finished(figure)


def finished(figure: Figure) -> Figure:
    """White ground, tight."""
    figure.tight_layout()
    return on_white(figure)
