"""Figs. 10 to 12 of Runkel et al. (2024): heatmaps over λ₁, λ₂ and lines, with the start's own distances; our maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from recon.chapters.landscape.metrics import BilevelMetrics, BySet, DecorecoMetrics
from recon.chapters.pictures import on_white
from recon.store.results import Result

SETS = {"truth": "training", "partition": "partition", "random": "noise"}
METHODS = {"bilevel": "bilevel", "pixels": "DecoReco, all pixels", "span": "DecoReco, our attack"}
COLOURS = dict(zip(SETS, ("#d62728", "#2ca02c", "#1f77b4"), strict=True))  # red, green, blue as in the paper


def heatmaps(axes: Sequence[Axes], distance: BySet, lambdas: list[float], top: float, label: str) -> None:
    """One row: distance to the nearest image of each set; λ₁ to the right, λ₂ upwards; values printed."""
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
    axes[0].set_ylabel(f"{label}\nλ₂  (noise → image)")


def highest(distances: Iterable[BySet]) -> float:
    """Of all, for a shared scale."""
    return max(float(np.max(values)) for distance in distances for values in distance.sets().values())


def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: the bilevel end points; below, the starts themselves."""
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(10, 7))
    top = highest([metrics.distance, metrics.start_distance])
    heatmaps(axes[0], metrics.distance, metrics.lambda1, top, "end point")
    heatmaps(axes[1], metrics.start_distance, metrics.lambda1, top, "start")
    return finished(figure)


def plot_variants(result: Result[DecorecoMetrics]) -> Figure:
    """Fig. 10b: DecoReco by descent in all pixels and by our attack; shared scale with the bilevel rows."""
    methods = result.metrics.variants.methods()
    distance = {label: methods[name].distance for name, label in METHODS.items()}
    figure, axes = plt.subplots(len(METHODS), 3, figsize=(10, 3.4 * len(METHODS)))
    top = highest(distance.values())
    for row, (label, found) in zip(axes, distance.items(), strict=True):
        heatmaps(row, found, result.metrics.lambda1, top, label)
    return finished(figure)


def plot_lines(result: Result[DecorecoMetrics]) -> Figure:
    """Figs. 11 and 12: along λ₁ at λ₂ = 1, along λ₂ at λ₁ = 1; bands one standard deviation over seeds; dotted: the
    start's own distances."""
    lambdas = np.array(result.metrics.lambda1)
    side = len(lambdas)
    figure, axes = plt.subplots(2, len(METHODS), figsize=(10.5, 6), sharey=True, sharex=True)
    for column, (name, label) in enumerate(METHODS.items()):
        for row, rival in enumerate(("partition", "random")):
            ax = axes[row, column]
            for key in ("truth", rival):
                grids = (result.array(f"{name}_{prefix}{key}").numpy() for prefix in ("", "start_"))
                squares = (grid.reshape(-1, side, side) for grid in grids)
                ends, starts = (s[:, :, -1] if rival == "partition" else s[:, -1, :] for s in squares)
                mean, sd = ends.mean(0), ends.std(0, ddof=1) if len(ends) > 1 else 0 * ends[0]
                ax.plot(lambdas, mean, color=COLOURS[key], marker="o", markersize=3, label=f"to {SETS[key]}")
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


def plot_connection(result: Result[BilevelMetrics]) -> Figure:
    """Energy from the truth to two end points: along the straight segment, and along its projection on the solution
    set; relative to the energy of noise."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    noise = result.array("line_random")[:, -1:].numpy()
    for ax, (name, label) in zip(axes, (("partition", "the partition's"), ("random", "noise's")), strict=True):
        for kind, style, colour in (("straight", "-", "#444444"), ("curve", "--", "#0173b2")):
            energy = result.array(f"{kind}_{name}").numpy() / noise
            t = np.linspace(0, 1, energy.shape[1])
            for k, row in enumerate(energy):
                text = {"straight": "straight segment", "curve": "projected on the solution set"}[kind]
                ax.plot(t, row.clip(1e-30), style, color=colour, label=text if k == 0 else None)
        ax.set(yscale="log", xlabel=f"from the truth to {label} end point")
        ax.legend(fontsize=7)
    axes[0].set_ylabel("outer energy / energy of noise")
    return finished(figure)


def plot_geometry(result: Result[DecorecoMetrics]) -> Figure:
    """Left: energy on the lines from the truth. Right: barriers on segments between end points. All relative to the
    energy of noise."""
    labels = {
        "bilevel": "bilevel (affine net)",
        "affine": "DecoReco, same affine net",
        "pixels": "DecoReco, three layers",
    }
    colours = dict(zip(labels, sns.color_palette("colorblind", len(labels)), strict=True))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6))
    for ax, name in zip(axes, ("partition", "random"), strict=False):
        for method, label in labels.items():
            energy = result.array(f"{method}_line_{name}").numpy()
            energy = energy / result.array(f"{method}_line_random").numpy()[:, -1:]
            t = np.linspace(0, 1, energy.shape[1])
            for k, row in enumerate(energy):
                ax.plot(t, row, color=colours[method], linewidth=1, label=label if k == 0 else None)
        ax.set_xlabel(f"from the truth to {'the partition' if name == 'partition' else 'noise'}")
        ax.legend(fontsize=7)
    axes[0].set_ylabel("energy / energy of noise")
    data = [result.array(f"{method}_barrier").flatten().numpy().clip(1e-6) for method in labels]
    axes[2].boxplot(data, tick_labels=["bilevel", "DecoReco,\nsame net", "DecoReco,\nthree layers"], widths=0.6)
    axes[2].set(yscale="log", title="barriers between end points")
    return finished(figure)


def finished(figure: Figure) -> Figure:
    """White ground, tight."""
    figure.tight_layout()
    return on_white(figure)
