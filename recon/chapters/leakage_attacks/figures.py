"""Figures of chapter 15: image × network × method, our scores against the published ones; and of twenty images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from recon.chapters.leakage_attacks.claims_matching import SUFFIXES, name_of
from recon.chapters.leakage_attacks.metrics import MatchingMetrics, Metrics, Scores
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, beside_grey, chart, end_labels, image_rows
from recon.chapters.published import DIVERGED, LABELS, METHODS, PUBLISHED
from recon.store.results import Result


def plot_grid(result: Result[Metrics]) -> Figure:
    """Reconstructions, MSE and PSNR (peak 255, as published) above each: a row for each network on which gradient
    matching ran, with every method; then the networks on which R-GAP alone did, side by side."""
    truth, networks = list(result.array("truth")), result.metrics.networks
    methods = ran_on_any(result.metrics)
    rows: list[tuple[str, Sequence[Tensor | None], str]] = []
    titles: list[list[str]] = []
    alone = [name for name, row in networks.items() if list(row.methods) == ["rgap"] and len(methods) > 1]
    for name in (name for name in networks if name not in alone):
        images: list[Tensor | None] = [*truth]
        head = ["original"] * len(truth)
        for method in methods:
            scores = networks[name].methods.get(method)
            images += list(result.array(f"x_hat {name} {method}")) if scores else [None] * len(truth)
            wrapped = LABELS[method].replace(" (", "\n(")
            head += [f"{wrapped}\n{scored(scores, k)}" if scores else "" for k in range(len(truth))]
        rows.append((name.replace(" pre-", "\n"), images, "black"))
        titles.append(head)
    for first in range(0, len(alone), 4):  # four networks a line, each with its images
        part = alone[first : first + 4]
        rows.append(
            (
                "R-GAP" if rows else "R-GAP\nalone",
                [x for name in part for x in result.array(f"x_hat {name} rgap")],
                "black",
            )
        )
        each = [networks[name].methods["rgap"] for name in part]
        titles.append(
            [
                f"{name.replace(' pre-', chr(10))}\n{scored(scores, k)}"
                for name, scores in zip(part, each, strict=True)
                for k in range(len(truth))
            ]
        )
    return image_rows(rows, titles)


def scored(scores: Scores, k: int) -> str:
    """MSE and PSNR of the k-th image."""
    each = list(scores.per_image.values())[k]
    return f"{each.mse:.4f}\n{each.psnr_255:.1f} dB" if each and each.mse < DIVERGED else "diverged"


def table(metrics: Metrics) -> dict[str, dict[str, str]]:
    """Appendix E in words, network by network and method by method: ours, and the published in brackets."""
    return {
        name: {LABELS[method]: in_words(name, method, row.methods.get(method)) for method in ran_on_any(metrics)}
        for name, row in metrics.networks.items()
    }


def ran_on_any(metrics: Metrics) -> list[str]:
    """Methods that ran on any network, in the order of the tables."""
    return [method for method in LABELS if any(method in row.methods for row in metrics.networks.values())]


def in_words(name: str, method: str, ours: Scores | None) -> str:
    """One entry of the table; empty where the method did not run."""
    if ours is None:
        return ""
    text = "diverged" if ours.diverged else f"{ours.mse:.4f}, {ours.psnr_255:.2f} dB"
    published = PUBLISHED[name].get(method)
    return text + (f"  (paper {published[0]:.4g}, {published[1]:.2f})" if published else "")


@chart
def plot_scores(result: Result[Metrics]) -> Figure:
    """Our mean PSNR against the published one, every network and method."""
    figure, ax = plt.subplots(figsize=(PAGE, 4.4))
    networks = result.metrics.networks
    for method, colour in zip(METHODS, SERIES, strict=False):
        points = [
            (PUBLISHED[name][method][1], row.methods[method].psnr_255)
            for name, row in networks.items()
            if method in row.methods and 0 < PUBLISHED[name][method][1] < 100
        ]
        if points:
            ax.scatter(*zip(*points, strict=True), color=colour, label=LABELS[method])
    low, high = 44, 82
    ax.plot([low, high], [low, high], color=REFERENCE, linestyle=":")
    ax.set(xlabel="published PSNR in dB (peak 255)", ylabel="ours", xlim=(low, high), ylim=(low, high))
    ax.set_aspect("equal")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "grid": plot_grid,
    "scores": plot_scores,
}


# ------------------------------------------------------------------------------------------- twenty images


@chart
def plot_choices(result: Result[MatchingMetrics]) -> Figure:
    """Error of CosineTV and of Hybrid with either energy and either steps, network by network; every image a dot."""
    networks = result.metrics.networks
    figure, axes = plt.subplots(2, 1, figsize=(PAGE, 5.8), sharey=True, sharex=True, layout="constrained")
    place = np.arange(len(networks))
    grey = float(np.mean(result.metrics.grey))
    for ax, attack in zip(axes, ("cosine_tv", "hybrid"), strict=True):
        for k, ((suffix, words), colour) in enumerate(zip(SUFFIXES.items(), SERIES, strict=False)):
            x = place + 0.18 * (k - 1.5)
            for at, row in zip(x, networks.values(), strict=True):
                logs = row.methods[attack + suffix].logs
                ax.plot(np.full(len(logs), at), 10**logs, ".", color=colour, alpha=0.5, markersize=4)
            typical = [row.methods[attack + suffix].typical for row in networks.values()]
            ax.plot(x, typical, "_", color=colour, markersize=13, markeredgewidth=2.5, label=words)
        ax.axhline(grey, color=REFERENCE, linestyle=":", label="a grey image")
        ax.set_xticks(place, [name.replace(" ", "\n", 1) for name in networks])
        ax.set(yscale="log", title=LABELS[attack], ylabel="mean squared error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


@chart
def plot_tv(result: Result[MatchingMetrics]) -> Figure:
    """Error of CosineTV, as its authors run it, against the weight of the total variation; 0 at the left edge."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    swept = {name: row.tv for name, row in result.metrics.networks.items() if row.tv}
    ends: list[tuple[float, str, Colour]] = []
    ticks: dict[float, str] = {}
    for (name, runs), colour in zip(swept.items(), SERIES, strict=False):
        weights = np.array([float(weight) for weight in runs])
        least = weights[weights > 0].min() / 10
        x = np.maximum(weights, least)
        ticks |= {float(at): f"{weight:g}" for at, weight in zip(x, weights, strict=True)}
        typical = np.array([run.typical for run in runs.values()])
        spread = np.array([np.quantile(run.logs, (0.25, 0.75)) for run in runs.values()])
        ax.plot(x, typical, "o-", color=colour)
        ax.fill_between(x, 10 ** spread[:, 0], 10 ** spread[:, 1], color=colour, alpha=0.15)
        ends.append((float(typical[np.argmax(x)]), name, colour))
    ax.axvline(0.01, color=REFERENCE, linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="weight of the total variation", ylabel="mean squared error")
    ax.set_xticks(list(ticks), list(ticks.values()))
    ax.xaxis.set_minor_locator(NullLocator())
    end_labels(ax, ends)
    return figure


def plot_classes(result: Result[MatchingMetrics]) -> Figure:
    """Appendix H: one image of each class by every attack, on the network on which attacks differ most; DLG, which runs
    away, has no say in that."""
    metrics = result.metrics
    spread = {
        name: float(np.ptp([run.logs.mean() for method, run in row.methods.items() if method != "dlg"]))
        for name, row in metrics.networks.items()
    }
    name = max((each for each in spread if metrics.networks[each].joint < 0), key=spread.__getitem__, default=None)
    name = name or next(iter(metrics.networks))
    first = 2 if len(metrics.index) >= 12 else 0  # after the paper's two come the classes in turn
    shown = slice(first, first + 10)
    kinds = [kind for kind in SHOWN if kind in metrics.networks[name].methods]
    found = [(SHOWN[kind], result.array(f"x_hat {name} {kind}")[shown]) for kind in kinds]
    return beside_grey(result.array("truth")[shown], found, title=f"on {name}")


def matching_table(metrics: MatchingMetrics) -> pd.DataFrame:
    """Geometric mean of the errors over images, network by network."""
    rows = {
        name: {name_of(method): f"{run.typical:.2g}" for method, run in row.methods.items()}
        for name, row in metrics.networks.items()
    }
    return pd.DataFrame(rows)


def starts_table(metrics: MatchingMetrics) -> pd.DataFrame:
    """CosineTV, as its authors run it, by start: geometric means over images, and between images the middle half."""
    rows = {}
    for name, row in metrics.networks.items():
        if row.starts:
            low, high = 10 ** np.quantile(row.starts[0].logs, (0.25, 0.75))
            each = {f"start {k}": f"{run.typical:.2g}" for k, run in enumerate(row.starts, start=1)}
            rows[name] = each | {"middle half of the images, start 1": f"{low:.2g} to {high:.2g}"}
    return pd.DataFrame(rows).T.rename_axis("error (MSE)")


SHOWN = {
    "rgap": "R-GAP",
    "dlg": "DLG",
    "cosine_tv": "CosineTV,\nthe paper's",
    "cosine_tv_both": "CosineTV,\nits authors'",
    "hybrid": "Hybrid",
    "hybrid_both": "Hybrid,\nGeiping's steps",
    "gauss_newton": "Gauss–Newton",
    "smoothest": "the smoothest\nsolution",
}
MATCHING_FIGURES: dict[str, Callable[[Result[MatchingMetrics]], Figure]] = {
    "choices": plot_choices,
    "tv": plot_tv,
    "classes": plot_classes,
}
