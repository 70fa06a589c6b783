"""Figures of chapter 11: network × method, our scores against the published ones; and of twenty images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from companion.chapters.leakage_attacks.metrics import MatchingMetrics, Metrics, Scores
from companion.chapters.leakage_networks import TABLE_1
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, chart, end_labels, image_rows
from companion.chapters.published import DIVERGED, LABELS, METHODS, PRE_TRAINED, PUBLISHED
from companion.store.results import Result

LISTED = ("rgap", "dlg", "cosine_tv", "cosine_tv_authors", "hybrid")  # of `Metrics`, as the grid has them


def drawn_networks(metrics: Metrics) -> list[str]:
    """Those of the grid: untrained, attacked by gradient matching too, and of the fewest or of the most layers."""
    depth = {
        name: TABLE_1[name].depth for name, row in metrics.networks.items() if name in TABLE_1 and len(row.methods) > 1
    }
    return [name for name, each in depth.items() if each in (min(depth.values()), max(depth.values()))]


def plot_grid(result: Result[Metrics]) -> Figure:
    """The first image by every attack, on the networks of fewest and of most layers; its mean squared error above each,
    and below all the null, a grey image."""
    truth = result.array("truth")[0]
    names = drawn_networks(result.metrics)
    methods = [method for method in LISTED if any(method in result.metrics.networks[name].methods for name in names)]
    rows: list[tuple[str, Sequence[Tensor | None], str]] = [("original", [truth], "grey")]
    titles: list[list[str]] = [[]]
    for name in names:
        found = result.metrics.networks[name].methods
        rows.append((name, [result.array(f"x_hat {name} {method}")[0] for method in methods], "black"))
        titles.append([scored(found[method]) for method in methods])
    titles[1] = [f"{HEADS[method]}\n{error}" for method, error in zip(methods, titles[1], strict=True)]
    grey = truth.new_full(truth.shape, 0.5)
    rows.append(("a grey image\n(null)", [grey], "black"))
    titles.append([f"{(truth - grey).square().mean().item():.4f}"])
    return image_rows(rows, titles)


def scored(scores: Scores) -> str:
    """Mean squared error of the first image."""
    each = next(iter(scores.per_image.values()))
    return f"{each.mse:.4f}" if each and each.mse < DIVERGED else "diverged"


@chart
def plot_scores(result: Result[Metrics]) -> Figure:
    """Our mean PSNR against the published one, every network and method; open: pre-trained networks."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    for method, colour in zip(METHODS, SERIES, strict=False):
        for trained in (False, True):
            points = [
                (PUBLISHED[name][method][1], row.methods[method].psnr_255)
                for name, row in result.metrics.networks.items()
                if method in row.methods and name.endswith(PRE_TRAINED) == trained
            ]
            shown = [(x, y) for x, y in points if y is not None and max(x, y) < 100 and min(x, y) > 40]
            if shown:
                face = "none" if trained else colour
                label = LABELS[method] + (", pre-trained" if trained else "")
                ax.scatter(*zip(*shown, strict=True), color=colour, facecolors=face, label=label)
    low, high = 44, 82
    ax.plot([low, high], [low, high], color=REFERENCE, linestyle=":")
    ax.set(xlabel="published PSNR in dB (peak 255)", ylabel="ours", xlim=(low, high), ylim=(low, high))
    ax.set_aspect("equal")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


HEADS = {
    "rgap": "R-GAP",
    "dlg": "DLG",
    "cosine_tv": "CosineTV,\npaper's way",
    "cosine_tv_authors": "CosineTV, its\nauthors' way",
    "hybrid": "Hybrid",
}
FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "grid": plot_grid,
    "scores": plot_scores,
}


# ------------------------------------------------------------------------------------------- twenty images


@chart
def plot_choices(result: Result[MatchingMetrics]) -> Figure:
    """Error of CosineTV and of Hybrid, as the paper runs them and as CosineTV's authors do, network by network; every
    image a dot, their geometric mean a bar."""
    networks = result.metrics.networks
    figure, ax = plt.subplots(figsize=(PAGE, 3.8), layout="constrained")
    place = np.arange(len(networks))
    for k, ((method, words), colour) in enumerate(zip(WAYS.items(), SERIES, strict=False)):
        x = place + 0.19 * (k - 1.5)
        for at, row in zip(x, networks.values(), strict=True):
            logs = row.methods[method].logs
            ax.plot(np.full(len(logs), at), 10**logs, ".", color=colour, alpha=0.4, markersize=4)
        typical = [row.methods[method].typical for row in networks.values()]
        ax.plot(x, typical, "_", color=colour, markersize=11, markeredgewidth=3, label=words)
    ax.axhline(float(np.mean(result.metrics.grey)), color=REFERENCE, linestyle=":", label="a grey image (null)")
    ax.set_xticks(place, [name.replace(" ", "\n", 1) for name in networks])
    ax.set(yscale="log", ylabel="mean squared error")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
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


def classes_network(metrics: MatchingMetrics) -> str:
    """The network of `plot_classes`: of those that leave something open, the one on which attacks differ most; DLG,
    which runs away, has no say in that.  Where none does, the first."""
    spread = {
        name: float(np.ptp([run.logs.mean() for method, run in row.methods.items() if method != "dlg"]))
        for name, row in metrics.networks.items()
    }
    left = [name for name in spread if name in metrics.open]
    return max(left, key=spread.__getitem__) if left else next(iter(metrics.networks))


def plot_classes(result: Result[MatchingMetrics]) -> Figure:
    """Three images by every attack on one network, one image a row, the errors above; last the null, a grey image."""
    metrics = result.metrics
    name = classes_network(metrics)
    first = 2 if len(metrics.index) >= 5 else 0  # after the paper's two come the classes in turn
    truth = result.array("truth")[first : first + 3]
    kinds = [kind for kind in SHOWN if kind in metrics.networks[name].methods]
    found = torch.stack([result.array(f"x_hat {name} {kind}")[first : first + 3] for kind in kinds], 1)
    grey = truth.new_full(truth.shape, 0.5)
    rows, titles = [], []
    for k, image in enumerate(truth):
        errors = [metrics.networks[name].methods[kind].mse[first + k] for kind in kinds]
        above = [*map(_error, errors), f"{metrics.grey[first + k]:.3f}"]
        rows.append((f"on {name}" if k == 0 else "", [image, *found[k], grey[k]], "black"))
        heads = ["original", *(SHOWN[kind] for kind in kinds), "grey\n(null)"]
        titles.append(
            [f"{h}\n{e}".strip() for h, e in zip(heads, ["", *above], strict=True)] if k == 0 else ["", *above]
        )
    return image_rows(rows, titles)


def _error(mse: float | None) -> str:
    return "diverged" if mse is None or mse > DIVERGED else f"{mse:.3f}"


WAYS = {
    "cosine_tv": "CosineTV, the paper's way",
    "cosine_tv_both": "CosineTV, its authors' way",
    "hybrid": "Hybrid, the paper's way",
    "hybrid_both": "Hybrid, with the same energy and steps",
}
SHOWN = {
    "gauss_newton": "any\nsolution",
    "cosine_tv": "CosineTV,\npaper's",
    "cosine_tv_both": "CosineTV,\nauthors'",
    "hybrid": "Hybrid",
    "smoothest": "smoothest\nsolution",
}
MATCHING_FIGURES: dict[str, Callable[[Result[MatchingMetrics]], Figure]] = {
    "choices": plot_choices,
    "tv": plot_tv,
    "classes": plot_classes,
}
