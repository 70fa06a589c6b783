"""Chapter 11's sentences on images beyond the paper's two: which energy, which steps, and who wins
at equal footing.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_attacks.experiment import ATTACKS
from companion.chapters.leakage_attacks.experiment_matching import (
    MatchingSizes,
    Metrics,
    logs,
    typical,
)
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.chapters.published import DIVERGED
from companion.store.results import Claim, Result

#: suffix of CosineTV's and Hybrid's name -> what differs
SUFFIXES = {
    "": "as the paper has them",
    "_whole": "whole gradient",
    "_steps": "Geiping's steps",
    "_both": "both",
}


def claims(metrics: Metrics, _: MatchingSizes) -> list[Claim]:
    """On all networks and images together: CosineTV against Hybrid as published; and, beyond the
    paper's comparison, with the same cosine and steps for both. Starts, budgets and other terms
    stay.
    """
    extent = {"networks": len(metrics.networks), "images": len(metrics.index)}
    ratio = metrics.ratio("cosine_tv_both", "hybrid")
    rows = [row.methods for row in metrics.networks.values()]
    better = sum(typical(row["cosine_tv_both"]) < typical(row["hybrid"]) for row in rows)
    papers = metrics.ratio("cosine_tv", "hybrid")
    ratios = {
        words: metrics.ratio("hybrid" + suffix, "cosine_tv" + suffix)
        for suffix, words in SUFFIXES.items()
    }
    last = ratios["both"]
    return [
        claim(
            "leakage-authors-setting",
            {**extent, "ratio": str(ratio), "papers": str(papers), "better": better},
            verdict={True: "finding", False: "not reproduced", None: "undecided"}[ratio.lower],
            value=ratio.mean,
            null_value=1.0,
        ),
        claim(
            "leakage-equal-footing",
            {**extent, "ratios": {words: str(ratio) for words, ratio in ratios.items()}},
            verdict={True: "not reproduced", False: "finding", None: "undecided"}[last.lower],
            value=last.mean,
            null_value=1.0,
        ),
    ]


# ------------------------------------------------------------------------------------ twenty images
@chart
def plot_choices(result: Result[Metrics]) -> Figure:
    """Error of CosineTV and of Hybrid, as the paper runs them and as CosineTV's authors do, network
    by network; every image a dot, their geometric mean a bar.
    """
    networks = result.metrics.networks
    figure, ax = plt.subplots(figsize=(PAGE, 3.8), layout="constrained")
    place = np.arange(len(networks))
    choices = {name: method.choice for name, method in ATTACKS.items() if method.choice}
    for k, ((method, words), colour) in enumerate(zip(choices.items(), SERIES, strict=False)):
        x, runs = place + 0.19 * (k - 1.5), [row.methods[method] for row in networks.values()]
        errors = np.array([10 ** logs(run) for run in runs])
        ax.plot(x, errors, ".", color=colour, alpha=0.4, markersize=4)
        means = [typical(run) for run in runs]
        ax.plot(x, means, "_", color=colour, markersize=11, markeredgewidth=3, label=words)
    ax.axhline(
        float(np.mean(result.metrics.grey)),
        color=REFERENCE,
        linestyle=":",
        label="a grey image (null)",
    )
    ax.set_xticks(place, [name.replace(" ", "\n", 1) for name in networks])
    ax.set(yscale="log", ylabel="mean squared error")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def classes_network(metrics: Metrics) -> str:
    """The network of `plot_classes`: of those that leave something open, the one on which attacks
    differ most; DLG, which runs away, has no say in that. Where none does, the first.
    """

    def spread(name: str) -> float:
        runs = {**metrics.networks[name].methods, "dlg": None}
        return float(np.ptp([logs(run).mean() for run in runs.values() if run]))

    return max(metrics.open, key=spread, default=next(iter(metrics.networks)))


def columns(metrics: Metrics) -> list[str]:
    """Attacks of `plot_classes`."""
    ran = metrics.networks[classes_network(metrics)].methods
    return [name for name, method in ATTACKS.items() if method.column and name in ran]


def first_class(metrics: Metrics) -> int:
    """Number of the first image of `plot_classes`: after the paper's two come those by class."""
    return 2 if len(metrics.index) >= 5 else 0


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """Three images, and what attacks make of them, (images, attacks, d)."""
    name, first = classes_network(metrics), first_class(metrics)
    x_hat = torch.stack([arrays[f"x_hat {name} {method}"] for method in columns(metrics)], 1)
    images = {"truth": arrays["truth"], "x_hat": x_hat}
    return {key: levels(x[first : first + 3]) for key, x in images.items()}


@photographs
def plot_classes(result: Result[Metrics]) -> Figure:
    """Three images by every attack on one network, one image a row, the errors above; last the
    null, a grey image.
    """
    metrics = result.metrics
    name, first = classes_network(metrics), first_class(metrics)
    runs = [metrics.networks[name].methods[method].mse for method in columns(metrics)]
    heads = ["original", *(ATTACKS[method].head for method in columns(metrics)), "grey\n(null)"]
    grey = torch.full(result.figure("truth")[0].shape, 0.5)
    rows, titles = [], []
    images = zip(result.figure("truth"), result.figure("x_hat"), strict=True)
    for k, (image, x_hat) in enumerate(images):
        errors = [run[first + k] for run in (*runs, metrics.grey)]
        rows.append(("" if k else f"on {name}", [image, *x_hat, grey], "black"))
        titles.append(["", *map(in_words, errors)])
    titles[0] = [f"{head}\n{error}".strip() for head, error in zip(heads, titles[0], strict=True)]
    return image_rows(rows, titles)


def in_words(error: float | None) -> str:
    """An error, or that there is none."""
    return "diverged" if error is None or error > DIVERGED else f"{error:.3f}"


FIGURES = {"choices": plot_choices, "classes": plot_classes}
