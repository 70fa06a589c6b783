"""Chapter 11 on the weight of the prior: who wins once it is tuned, and what it decides."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_attacks.experiment_weights import (
    WAYS,
    Metrics,
    WeightSizes,
    key_of,
    logs,
)
from companion.chapters.leakage_common import Ratio
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.store.results import Claim, Result

#: of `plot_classes`, and their heads
COLUMNS = {
    "gauss_newton": "any\nsolution",
    "cosine_tv": "CosineTV,\nAdam",
    "cosine_tv_geiping": "CosineTV,\nsigned steps",
    "hybrid": "Hybrid,\nAdam",
    "smoothest": "smoothest\nsolution",
}
DRAWN = 3  # images


def claims(metrics: Metrics, _: WeightSizes) -> list[Claim]:
    """Judged over networks, the unit that the sentences speak of; over images beside."""
    return [prior_decides(metrics), tuned(metrics)]


def over(differences: np.ndarray) -> dict[str, str]:
    """The ratio of two errors, from differences of logarithms (networks, images), with its interval
    over either.
    """
    return {
        "networks": str(Ratio.of(differences.mean(1))),
        "images": str(Ratio.of(differences.mean(0))),
    }


def prior_decides(metrics: Metrics) -> Claim:
    """A finding if, over networks, the weights that CosineTV's authors used are farther apart than
    the two attacks are at their best weights: ratio of largest to least error of the former, over
    that of the latter, above 1.
    """
    weights = WAYS["cosine_tv_geiping"].published
    by_weight = np.stack([metrics.errors("cosine_tv_geiping", weight) for weight in weights])
    by_attack = np.stack([metrics.errors(attack) for attack in ("cosine_tv_geiping", "hybrid")])
    spreads = {
        "weight": np.ptp(by_weight.mean(2), axis=0),
        "attack": np.ptp(by_attack.mean(2), axis=0),
        "images": (np.ptp(by_weight, axis=0) - np.ptp(by_attack, axis=0)).mean(0),
    }
    more = Ratio.of(spreads["weight"] - spreads["attack"])
    return claim(
        "leakage-prior-decides",
        {
            "weights": len(weights),
            "count": by_weight.shape[1:],
            "more": str(more),
            **{name: str(Ratio.of(spread)) for name, spread in spreads.items()},
        },
        verdict={True: "not reproduced", False: "finding", None: "undecided"}[more.lower],
        value=more.mean,
        null_value=1.0,
    )


def tuned(metrics: Metrics) -> Claim:
    """A finding if the error of CosineTV over Hybrid's, each in its authors' steps and at the best
    of its weights on the tuning images, is below 1 over networks; not reproduced if it is above.
    """
    cosine = metrics.errors("cosine_tv_geiping")
    others = {
        "hybrid": metrics.errors("hybrid"),
        "same": metrics.errors("hybrid_geiping"),
        "grey": logs(metrics.grey),
    }
    ratio = Ratio.of((cosine - others["hybrid"]).mean(1))
    return claim(
        "leakage-tuned",
        {
            "count": cosine.shape,
            **{name: over(cosine - errors) for name, errors in others.items()},
        },
        verdict={True: "finding", False: "not reproduced", None: "undecided"}[ratio.lower],
        value=ratio.mean,
        null_value=1.0,
    )


@chart
def plot_weights(result: Result[Metrics]) -> Figure:
    """Error on the tuning images by weight of the total variation, one panel a network; a ring
    where the error is least; dotted, a grey image.
    """
    metrics = result.metrics
    names = list(metrics.networks)
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    figure.set_size_inches(PAGE, 1.0 + 2.1 * rows)
    for ax, name in zip(axes.flat, names, strict=False):
        for (attack, way), colour in zip(WAYS.items(), SERIES, strict=False):
            row = metrics.networks[name][attack]
            weights = sorted(map(float, row.tuning))
            errors = [row.tuning[key_of(weight)] for weight in weights]
            ax.plot(
                weights,
                errors,
                "-o",
                color=colour,
                label=way.label,
                markevery=[weights.index(row.best)],
                markerfacecolor="none",
            )
        grey = float(np.mean(metrics.grey))
        ax.axhline(grey, color=REFERENCE, linestyle=":", label="a grey image (baseline)")
        ax.set(xscale="log", yscale="log", title=name)
    figure.supxlabel("weight of the total variation")
    figure.supylabel("mean squared error")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """The first images, and what attacks make of them on one network, (images, attacks, d)."""
    name = drawn_network(metrics)
    x_hat = torch.stack([arrays[f"x_hat {name} {attack}"] for attack in COLUMNS], 1)
    return {"truth": levels(arrays["truth"][:DRAWN]), "x_hat": levels(x_hat[:DRAWN])}


def drawn_network(metrics: Metrics) -> str:
    """The first that leaves something open, or the first."""
    return max(metrics.networks, key=lambda name: metrics.networks[name].open)


@photographs
def plot_classes(result: Result[Metrics]) -> Figure:
    """Images by every attack on one network, one a row, the errors above; last the null, a grey
    image.
    """
    metrics = result.metrics
    name = drawn_network(result.metrics)
    at = list(metrics.networks).index(name)
    errors = [10 ** metrics.errors(attack)[at] for attack in COLUMNS]
    numbers = zip(*errors, metrics.grey, strict=True)
    titles = [["", *(f"{error:.3f}" for error in row)] for row in numbers]
    heads = ("original", *COLUMNS.values(), "grey\n(baseline)")
    titles[0] = [f"{head}\n{error}" for head, error in zip(heads, titles[0], strict=True)]
    truth = result.figure("truth")
    x_hat = result.figure("x_hat")
    grey = torch.full(truth[0].shape, 0.5)
    rows = [("", [image, *found, grey], "none") for image, found in zip(truth, x_hat, strict=True)]
    return image_rows(rows, titles[: len(rows)])


FIGURES = {"weights": plot_weights, "classes": plot_classes}
