"""Figures of chapter 18: activations, both threat models."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from recon.chapters.leakage_beyond.metrics import Metrics
from recon.chapters.leakage_common import LEAST
from recon.chapters.pictures import (
    FREE,
    HELD_OUT,
    NULL_LABELS,
    PAGE,
    SERIES,
    TRAIN,
    Colour,
    activations_in,
    beside_grey,
    chart,
    end_labels,
    image_rows,
)
from recon.store.results import Result


@chart
def plot_stages(result: Result[Metrics]) -> Figure:
    """What one image's gradient gives away during training, in both precisions, and what the weights do."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    stages, weights = result.metrics.threat_models.stages, result.metrics.threat_models.weights
    x = {stage.step: max(-stage.log_loss, 0.5) for stage in stages}
    nulls = ",\n".join(dict.fromkeys(NULL_LABELS[row.best_null_ncc_name] for row in weights))
    at = [x[row.step] for row in weights]
    every = list(x.values())
    ends: list[tuple[float, str, Colour]] = []
    for places, values, style, label, colour in (
        (every, [stage.gradient_ncc_32 for stage in stages], "o-", "one gradient,\nfloat32", SERIES[0]),
        (every, [stage.gradient_ncc_64 for stage in stages], "^--", "one gradient,\nfloat64", SERIES[0]),
        (at, [row.ncc for row in weights], "s-", "weights: training\nimages", TRAIN),
        (at, [row.null_ncc for row in weights], "s:", "weights: held-out\nimages (null)", HELD_OUT),
        (at, [row.best_null_ncc for row in weights], "s-.", f"best null:\n{nulls}", FREE),
    ):
        ax.plot(places, values, style, color=colour)
        ends.append((values[-1], label, colour))
    ax.set(xscale="log", xlabel="−log of the training loss", ylabel="mean NCC", ylim=(-0.05, 1.05))
    end_labels(ax, ends)
    return figure


def plot_activations(result: Result[Metrics]) -> Figure:
    """Truth, and what each method has by activation, on the last network."""
    name, row = list(result.metrics.activations.items())[-1]
    found = [(activations_in(key), result.array(f"activation {name} {key}")[:6]) for key in row.rows()]
    return beside_grey(result.array("truth")[:6], found)


def activation_table(metrics: Metrics) -> pd.DataFrame:
    """Geometric means of the errors."""
    rows = {
        name: {key: f"{value:.2g}" if value > LEAST else "exact" for key, value in row.rows().items()}
        for name, row in metrics.activations.items()
    }
    return pd.DataFrame(rows)


def plot_threat_models(result: Result[Metrics]) -> Figure:
    """The same images: from one gradient of the untrained net, of the trained net, and from the trained weights."""
    rows = [
        ("training\nimage", result.array("threat truth"), "grey"),
        ("one gradient,\nuntrained net", result.array("threat gradient, untrained"), "black"),
        ("one gradient,\ntrained net", result.array("threat gradient, trained"), "black"),
        ("trained\nweights", result.array("threat weights"), "black"),
    ]
    return image_rows(rows, [[], [], [], [f"{score:.2f}" for score in result.metrics.threat_models.ncc.weights]])


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "activations": plot_activations,
    "threat-models": plot_threat_models,
    "stages": plot_stages,
}
