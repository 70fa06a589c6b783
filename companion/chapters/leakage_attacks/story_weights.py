"""Chapter 11 on the weight of the prior: who wins once it is tuned, and what it decides."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.leakage_attacks.experiment_weights import (
    WAYS,
    Metrics,
    WeightSizes,
    key_of,
    logs,
)
from companion.chapters.leakage_common import Ratio
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, chart
from companion.store.results import Claim, Result

LABELS = {
    "cosine_tv": "CosineTV, Chen & Campbell's steps",
    "cosine_tv_geiping": "CosineTV, Geiping's steps",
    "hybrid": "Hybrid as published",
    "hybrid_geiping": "Hybrid, Geiping's steps",
}
VERDICTS = {True: "finding", False: "not reproduced", None: "undecided"}


def claims(metrics: Metrics, _: WeightSizes) -> list[Claim]:
    """Intervals are over networks, the unit that both sentences speak of; over images beside."""
    return [tuned(metrics), prior_decides(metrics)]


def tuned(metrics: Metrics) -> Claim:
    """A finding if the error of CosineTV over Hybrid's, each in its authors' steps and at the best
    of its weights on the tuning images, is below 1 over networks; not reproduced if it is above.
    """
    difference = np.stack(
        [
            metrics.errors(name, "cosine_tv_geiping") - metrics.errors(name, "hybrid")
            for name in metrics.networks
        ]
    )  # (networks, images)
    over_networks, over_images = Ratio.of(difference.mean(1)), Ratio.of(difference.mean(0))
    same_steps = Ratio.of(metrics.typical("cosine_tv_geiping") - metrics.typical("hybrid_geiping"))
    grey = Ratio.of(metrics.typical("cosine_tv_geiping") - logs(metrics.grey).mean())
    return claim(
        "leakage-tuned",
        ours=(
            f"error of CosineTV over Hybrid's, geometric mean: {over_networks} over"
            f" {len(difference)} networks, {over_images} over {difference.shape[1]} images; with"
            f" Geiping's steps for both {same_steps} over networks"
        ),
        null=f"1 for no difference; CosineTV over a grey image: {grey} over networks",
        verdict=VERDICTS[over_networks.lower],
        value=over_networks.mean,
        null_value=1.0,
    )


def prior_decides(metrics: Metrics) -> Claim:
    """A finding if, over networks, the weights that CosineTV's authors used are farther apart than
    the two attacks are at their best weights: ratio of largest to least error of the former, over
    that of the latter, above 1.
    """
    by_weight = np.stack(
        [
            metrics.typical("cosine_tv_geiping", weight)
            for weight in WAYS["cosine_tv_geiping"].published
        ]
    )
    by_attack = np.stack([metrics.typical(way) for way in ("cosine_tv_geiping", "hybrid")])
    spread, apart = np.ptp(by_weight, axis=0), np.ptp(by_attack, axis=0)
    more = Ratio.of(spread - apart)
    return claim(
        "leakage-prior-decides",
        ours=(
            f"largest over least error among {len(by_weight)} published weights:"
            f" {Ratio.of(spread)}; of the two attacks at their best weights: {Ratio.of(apart)};"
            f" the one over the other {more}, over {len(spread)} networks"
        ),
        null="1: the choice of the weight matters no more than that of the attack",
        verdict={True: "not reproduced", False: "finding", None: "undecided"}[more.lower],
        value=more.mean,
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
        rows, columns, figsize=(PAGE, 1.0 + 2.1 * rows), sharex=True, sharey=True, squeeze=False
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for way, colour in zip(LABELS, SERIES, strict=False):
            row = metrics.networks[name][way]
            weights = sorted(map(float, row.tuning))
            ax.plot(
                weights, [row.tuning[key_of(w)] for w in weights], color=colour, label=LABELS[way]
            )
            ax.plot(
                row.best, row.tuning[key_of(row.best)], "o", color=colour, markerfacecolor="none"
            )
        ax.axhline(
            float(np.mean(metrics.grey)), color=REFERENCE, linestyle=":", label="a grey image"
        )
        ax.set(xscale="log", yscale="log", title=name)
    for ax in axes.flat[len(names) :]:
        ax.remove()
    figure.supxlabel("weight of the total variation")
    figure.supylabel("mean squared error")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


FIGURES = {"weights": plot_weights}
