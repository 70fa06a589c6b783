"""Figures of chapter 16: what is missing and what is found, images, clients, labels, unmixed batches."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from recon.chapters.leakage_batches.metrics import Metrics
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, beside_grey, chart, end_labels, image_rows
from recon.store.results import Result


@chart
def plot_batches(result: Result[Metrics]) -> Figure:
    """Share of the unknowns that the gradient fixes, and share of the images that are found, against the batch."""
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.7), sharex=True, layout="constrained")
    kinds = list(dict.fromkeys((row.side, row.channels, row.same) for row in result.metrics.batches))
    for kind, colour in zip(kinds, SERIES, strict=False):
        rows = [row for row in result.metrics.batches if (row.side, row.channels, row.same) == kind]
        side, channels, same = kind
        label = f"{side} × {side}, {channels} channels" + (", one label" if same else "")
        style = {"color": colour, "marker": "s" if same else "o", "linestyle": "--" if same else "-"}
        axes[0].plot([row.n for row in rows], [1 + row.missing / row.unknowns for row in rows], label=label, **style)
        axes[1].plot([row.n for row in rows], [row.found / row.n for row in rows], **style)
    axes[0].set(ylabel="share of the unknowns that are fixed", ylim=(-0.05, 1.05))
    axes[1].set(ylabel="share of the images that are found", ylim=(-0.05, 1.05))
    for ax in axes:
        ax.set(xscale="log", xlabel="images in the batch")
        ax.axvline(result.metrics.classes, color=REFERENCE, linestyle=":")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def plot_images(result: Result[Metrics]) -> Figure:
    """One batch: the images, their mean, and Gauss–Newton's."""
    truth = result.array("truth")
    mean = result.array("mixed").expand(len(truth), -1)
    found = [("their mean", mean), ("from the mean\ngradient", result.array("x_hat"))]
    return beside_grey(truth, found, "images")


@chart
def plot_clients(result: Result[Metrics]) -> Figure:
    """Error against local steps: through the steps, and as if there had been one."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.2))
    rows = result.metrics.clients
    steps = [row.k for row in rows]
    through, naive = (
        [max(value, 1e-32) for value in (row.mse for row in rows)],
        [max(row.naive_mse, 1e-32) for row in rows],
    )
    ax.plot(steps, through, "-o", color=SERIES[0])
    ax.plot(steps, naive, "--s", color=SERIES[1])
    ax.axhline(rows[0].grey_mse, color=REFERENCE, linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="local steps", ylabel="mean squared error")
    ends = (through[-1], "through the steps", SERIES[0]), (naive[-1], "taken for\none gradient", SERIES[1])
    end_labels(ax, [*ends, (rows[0].grey_mse, "a grey image", REFERENCE)])
    return figure


@chart
def plot_labels(result: Result[Metrics]) -> Figure:
    """Share of wrong labels against the batch."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.2))
    rows = result.metrics.labels
    ends: list[tuple[float, str, Colour]] = []
    for key, style, label, colour in (
        ("untrained", "-o", "untrained network", SERIES[0]),
        ("trained", "-s", "trained network", SERIES[1]),
        ("equal", ":^", "equal counts", REFERENCE),
    ):
        values = [getattr(row, key) for row in rows]
        ax.plot([row.n for row in rows], values, style, color=colour)
        ends.append((values[-1], label, colour))
    ax.set(xscale="log", xlabel="images in the batch", ylabel="share of wrong labels", ylim=(-0.03, 1.03))
    end_labels(ax, ends)
    return figure


def plot_separated(result: Result[Metrics]) -> Figure:
    """Images of two batches and what separation has of them, scaled by the bias."""
    sizes = [row.n for row in result.metrics.separated]
    shown = dict.fromkeys((sizes[len(sizes) // 2], sizes[-1]))
    rows = []
    for n in shown:
        rows.append((f"images,\n{n} in all", result.array(f"separated truth {n}"), "grey"))
        rows.append(("unmixed", result.array(f"separated {n}"), "black"))
    return image_rows(rows)


def plot_mixtures(result: Result[Metrics]) -> Figure:
    """What eq. (4) returns for averaged gradients of a fully connected net: mixtures."""
    rows = [("images", result.array("mixture truth"), "grey")]
    rows += [(f"batch of {n}", result.array(f"mixture {n}"), "black") for n in result.metrics.mixtures.sizes]
    return image_rows(rows)


def batches_table(metrics: Metrics) -> pd.DataFrame:
    """Every batch in words."""
    rows = [
        {
            "images": f"{row.n} of {row.side} × {row.side}" + (", one label" if row.same else ""),
            "channels": row.channels,
            "unknowns": row.unknowns,
            "parameters": row.equations,
            "missing": -row.missing,
            "found": f"{row.found} of {row.n}",
            "certified": "✓" if row.certified else "",
            "MSE": f"{row.mse:.1g}",
            "NCC": f"{row.ncc:.2f}",
            "gradients differ by": f"{row.residual:.0e}",
        }
        for row in metrics.batches
    ]
    return pd.DataFrame(rows).set_index("images")


def separated_table(metrics: Metrics) -> pd.DataFrame:
    """Counts beside the best null, and errors."""
    rows = {
        f"{row.n} images": {
            "above NCC 0.7": f"{row.matches.ncc_07} [{row.best_null.ncc_07}]",
            "above NCC 0.8": f"{row.matches.ncc_08} [{row.best_null.ncc_08}]",
            "MSE below a tenth of grey's": row.within,
            "median MSE": f"{row.mse:.3f}",
            "grey (null)": f"{row.grey_mse:.3f}",
            "seconds": f"{row.seconds:.0f}",
        }
        for row in metrics.separated
    }
    return pd.DataFrame(rows).T


def clients_table(metrics: Metrics) -> pd.DataFrame:
    """Every number of local steps in words."""
    rows = [
        {
            "local steps": row.k,
            "missing equations": -row.missing,
            "found, through the steps": f"{row.found} of {row.n}",
            "its MSE": f"{row.mse:.1g}",
            "found, as one gradient": f"{row.naive_found} of {row.n}",
            "MSE": f"{row.naive_mse:.1g}",
            "grey (null)": f"{row.grey_mse:.1g}",
        }
        for row in metrics.clients
    ]
    return pd.DataFrame(rows).set_index("local steps")


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "batches": plot_batches,
    "images": plot_images,
    "clients": plot_clients,
    "labels": plot_labels,
    "separated": plot_separated,
    "mixtures": plot_mixtures,
}
