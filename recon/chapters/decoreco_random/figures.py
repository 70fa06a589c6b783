"""Fig. 5: reconstructions beside their nearest images, each search with its null; and the energies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from recon.chapters.decoreco_random.metrics import Metrics, ReferenceMetrics
from recon.chapters.pictures import (
    PAGE,
    SERIES,
    STARTS,
    Colour,
    chart,
    count_label,
    end_labels,
    image_rows,
    shown,
)
from recon.scoring.matching import nearest, one_to_one
from recon.store.results import Result


def plot_random(result: Result[Metrics], n: int = 8) -> Figure:
    """Fig. 5: from the untuned start, by the reference recipe, by ours, projected afterwards, and within the span; with
    how many are above NCC 0.6, and how many of the best null.  Last, the null: the best of the search in the span, for
    held-out images."""
    train, held_out = result.array("x_train"), result.array("x_held_out")
    rows: list[tuple[str, Tensor, str]] = []
    titles: list[list[str]] = []
    variants = result.metrics.variants
    for name, label, found in (
        ("random", "published\nrecipe", variants.reference),
        ("pixels", "ours,\nall pixels", variants.pixels),
        ("cleaned", "projected\nafterwards", variants.pixels_then_span),
        ("span", "searched\nin the span", variants.span),
    ):
        x_hat = result.array(f"x_hat_{name}")
        best = nearest(train, x_hat, "ncc")
        picked = best.score.argsort(descending=True)[:n]
        if name == "random":
            rows.append(("its start", shown(result, result.array("x_init_random")[best.index[picked]]), "none"))
            titles.append([])
        _pair(rows, titles, result, count_label(label, found), x_hat, train, n)
    _pair(
        rows, titles, result, "null: in the\nspan, held out", result.array("x_hat_span"), held_out, n, "held-out\nimage"
    )
    return image_rows(rows, titles)


def _pair(
    rows: list[tuple[str, Tensor, str]],
    titles: list[list[str]],
    result: Result[Any],
    label: str,
    x_hat: Tensor,
    images: Tensor,
    n: int,
    words: str = "training\nimage",
) -> None:
    """Two more rows: the n results most like one of the images, and those images."""
    best = nearest(images, x_hat, "ncc")
    picked = best.score.argsort(descending=True)[:n]
    rows.append((label, shown(result, x_hat[best.index[picked]]), "black"))
    rows.append((words, shown(result, images[picked]), "grey"))
    titles += [[f"{score:.2f}" for score in best.score[picked]], []]


@chart
def plot_random_energy(result: Result[Metrics]) -> Figure:
    """Energy against steps for both searches."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.2))
    ends: list[tuple[float, str, Colour]] = []
    for (name, label), colour in zip(
        (("pixels", "in all pixels"), ("span", "in the span of W1")), SERIES, strict=False
    ):
        history = result.array(f"history_{name}")[:, 0]
        ax.plot(history, color=colour)
        ends.append((float(history[-1]), label, colour))
    ax.set(yscale="log", xlabel="step", ylabel="energy (layer 1)", xlim=(0, len(history) - 1))
    end_labels(ax, ends)
    return figure


START_LABELS = {"random": "N(0, 1)", "tuned": "tuned scale", "partition": "other images"}
START_COLOURS = {"random": STARTS["random"], "tuned": SERIES[0], "partition": STARTS["partition"]}


def plot_reference(result: Result[ReferenceMetrics], n: int = 10) -> Figure:
    """The published recipe from every start: starts, results and the training images that match one-to-one, the best
    first; below each, the null: the held-out images nearest to the same results."""
    train, held_out = result.array("x_train"), result.array("x_held_out")
    rows: list[tuple[str, Tensor, str]] = []
    titles: list[list[str]] = []
    for arm in result.metrics.arms:
        if arm.precision != "float32":
            continue
        x_hat, x_init = (result.array(f"{kind}_{arm.start}_{arm.precision}") for kind in ("x_hat", "x_init"))
        best = one_to_one(train, x_hat)
        picked = best.score.argsort(descending=True)[:n]
        found = x_hat[best.index[picked]]
        null = nearest(found, held_out, "ncc")
        rows += [
            (f"start:\n{START_LABELS[arm.start]}", shown(result, x_init[best.index[picked]]), "none"),
            (count_label("result", arm), shown(result, found), "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
            ("null: nearest\nheld-out image", shown(result, held_out[null.index]), "grey"),
        ]
        titles += [[], [], [f"{score:.2f}" for score in best.score[picked]], [f"{score:.2f}" for score in null.score]]
    return image_rows(rows, titles)


@chart
def plot_descent(result: Result[ReferenceMetrics]) -> Figure:
    """Layer 1's energy, as a share of its norm, and how far the images moved, against the steps of every run."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(PAGE, 5.2), sharex=True)
    energies: list[tuple[float, str, Colour]] = []
    moved: list[tuple[float, str, Colour]] = []
    for arm in result.metrics.arms:
        key, style = f"{arm.start}_{arm.precision}", "-" if arm.precision == "float32" else ":"
        trace, steps = result.array(f"trace_{key}"), result.array(f"trace_steps_{key}")
        energy = trace[:, 0] * (arm.start_share[0] / trace[0, 0])
        for ax, values, ends in ((above, energy, energies), (below, trace[:, -1], moved)):
            ax.plot(steps[values > 0], values[values > 0], style, color=START_COLOURS[arm.start])
            if style == "-":  # the same start in bfloat16 lies on its curve
                ends.append((float(values[-1]), START_LABELS[arm.start], START_COLOURS[arm.start]))
    truth = result.metrics.net.truth_share[0]
    above.axhline(truth, color=STARTS["truth"], ls="--")
    above.set(xscale="log", yscale="log", ylabel="layer 1: energy / ‖θ₁‖²")
    below.set(yscale="log", xlabel="step", ylabel="moved, relative\nto the start")
    end_labels(above, [*energies, (truth, "the training images", STARTS["truth"])])
    end_labels(below, moved)
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_random, "energy": plot_random_energy}
REFERENCE_FIGURES: dict[str, Callable[[Result[ReferenceMetrics]], Figure]] = {
    "starts": plot_reference,
    "descent": plot_descent,
}
