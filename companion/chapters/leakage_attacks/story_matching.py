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

SUFFIXES = {
    "": "as the paper has them",
    "_whole": "whole gradient",
    "_steps": "Geiping's steps",
    "_both": "both",
}
WAYS = {
    "cosine_tv": "CosineTV, the paper's way",
    "cosine_tv_both": "CosineTV, its authors' way",
    "hybrid": "Hybrid, the paper's way",
    "hybrid_both": "Hybrid, with one cosine and these steps",
}
SHOWN = {
    "gauss_newton": "any\nsolution",
    "cosine_tv": "CosineTV,\npaper's",
    "cosine_tv_both": "CosineTV,\nauthors'",
    "hybrid": "Hybrid",
    "smoothest": "smoothest\nsolution",
}


def claims(metrics: Metrics, _: MatchingSizes) -> list[Claim]:
    """On all networks and images together."""
    return [authors(metrics), equal_footing(metrics)]


def authors(metrics: Metrics) -> Claim:
    """Against Hybrid as published."""
    ratio = metrics.ratio("cosine_tv_both", "hybrid")
    each = {name: row.methods for name, row in metrics.networks.items()}
    better = [
        name
        for name, row in each.items()
        if typical(row["cosine_tv_both"]) < typical(row["hybrid"])
    ]
    return claim(
        "leakage-authors-setting",
        ours=(
            f"error over Hybrid's, {extent(metrics)}: {ratio}; lower on {len(better)} of"
            f" {len(each)} networks"
        ),
        null=(
            f"CosineTV as the paper runs it, over Hybrid's: {metrics.ratio('cosine_tv', 'hybrid')};"
            " 1 for no difference"
        ),
        verdict={True: "finding", False: "not reproduced", None: "undecided"}[ratio.lower],
        value=ratio.mean,
        null_value=1.0,
    )


def equal_footing(metrics: Metrics) -> Claim:
    """Beyond the paper's comparison: the same cosine and steps for both. Starts, budgets and other
    terms stay.
    """
    ratios = {
        SUFFIXES[suffix]: metrics.ratio("hybrid" + suffix, "cosine_tv" + suffix)
        for suffix in SUFFIXES
    }
    last = ratios[SUFFIXES["_both"]]
    return claim(
        "leakage-equal-footing",
        ours=f"Hybrid's error over CosineTV's, {extent(metrics)}: "
        + "; ".join(f"{name} {ratio}" for name, ratio in ratios.items()),
        null="1 for no difference",
        verdict={True: "not reproduced", False: "finding", None: "undecided"}[last.lower],
        value=last.mean,
        null_value=1.0,
    )


def extent(metrics: Metrics) -> str:
    """Of networks and images."""
    return f"geometric mean over {len(metrics.networks)} networks and {len(metrics.index)} images"


# ------------------------------------------------------------------------------------ twenty images
@chart
def plot_choices(result: Result[Metrics]) -> Figure:
    """Error of CosineTV and of Hybrid, as the paper runs them and as CosineTV's authors do, network
    by network; every image a dot, their geometric mean a bar.
    """
    networks = result.metrics.networks
    figure, ax = plt.subplots(figsize=(PAGE, 3.8), layout="constrained")
    place = np.arange(len(networks))
    for k, ((method, words), colour) in enumerate(zip(WAYS.items(), SERIES, strict=False)):
        x = place + 0.19 * (k - 1.5)
        for at, row in zip(x, networks.values(), strict=True):
            errors = logs(row.methods[method])
            ax.plot(
                np.full(len(errors), at), 10**errors, ".", color=colour, alpha=0.4, markersize=4
            )
        means = [typical(row.methods[method]) for row in networks.values()]
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
    spread = {
        name: float(
            np.ptp([logs(run).mean() for method, run in row.methods.items() if method != "dlg"])
        )
        for name, row in metrics.networks.items()
    }
    left = [name for name in spread if name in metrics.open]
    return max(left, key=spread.__getitem__) if left else next(iter(metrics.networks))


def first_class(metrics: Metrics) -> int:
    """Number of the first image of `plot_classes`: after the paper's two come those by class."""
    return 2 if len(metrics.index) >= 5 else 0


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """Three images, and what attacks make of them, (images, attacks, d)."""
    name, first = classes_network(metrics), first_class(metrics)
    kinds = [kind for kind in SHOWN if kind in metrics.networks[name].methods]
    x_hat = torch.stack([arrays[f"x_hat {name} {kind}"] for kind in kinds], 1)
    images = {"truth": arrays["truth"], "x_hat": x_hat}
    return {key: levels(x[first : first + 3]) for key, x in images.items()}


@photographs
def plot_classes(result: Result[Metrics]) -> Figure:
    """Three images by every attack on one network, one image a row, the errors above; last the
    null, a grey image.
    """
    metrics = result.metrics
    name, first = classes_network(metrics), first_class(metrics)
    truth, x_hat = result.figure("truth"), result.figure("x_hat")
    methods = metrics.networks[name].methods
    kinds = [kind for kind in SHOWN if kind in methods]
    grey = torch.full(truth[0].shape, 0.5)
    rows, titles = [], []
    for k, image in enumerate(truth):
        errors = [*(methods[kind].mse[first + k] for kind in kinds), metrics.grey[first + k]]
        rows.append((f"on {name}" if k == 0 else "", [image, *x_hat[k], grey], "black"))
        titles.append(
            [
                "",
                *(
                    "diverged" if each is None or each > DIVERGED else f"{each:.3f}"
                    for each in errors
                ),
            ]
        )
    heads = ["original", *(SHOWN[kind] for kind in kinds), "grey\n(null)"]
    titles[0] = [f"{head}\n{error}".strip() for head, error in zip(heads, titles[0], strict=True)]
    return image_rows(rows, titles)


FIGURES = {"choices": plot_choices, "classes": plot_classes}
