"""Figures of appendix B, on separation with a learned prior."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from companion.chapters.pictures import FREE, PAGE, SERIES, TRAIN, Colour, chart, end_labels, image_rows
from companion.chapters.weights_leak.claims_prior import ways
from companion.chapters.weights_leak.metrics import PriorMetrics
from companion.store.results import Result
from recon.attacks.separation import PIXEL_STD

THRESHOLDS = (0.6, 0.7, 0.8)


@chart
def plot_prior(result: Result[PriorMetrics]) -> Figure:
    """Share of the images that each attack finds above each NCC, and the best null of the last."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    colours = (SERIES[1], SERIES[0], TRAIN)
    lines = [(label, table.matches, colour) for (label, table), colour in zip(ways(metrics), colours, strict=True)]
    ends: list[tuple[float, str, Colour]] = []
    for label, counts, colour in [*lines, ("best null", metrics.found.best_null, FREE)]:
        three = [100 * count / metrics.n_train for count in (counts.ncc_06, counts.ncc_07, counts.ncc_08)]
        ax.plot(THRESHOLDS, three, "o-", color=colour)
        ends.append((three[-1], label, colour))
    ax.set(xlabel="NCC above", ylabel="training images found, %", xticks=THRESHOLDS)
    ax.set_ylim(bottom=-2)
    end_labels(ax, ends)
    return figure


def plot_pairs(result: Result[PriorMetrics], columns: int = 10) -> Figure:
    """Ten training images, from the one found best to the worst in even steps, under what was assigned to each."""
    train, sources, score, mean = map(result.array, ("x_train", "x_hat", "ncc", "mean"))
    picked = torch.linspace(0, len(train) - 1, columns).round().long()
    found = torch.cat([sources, -sources])[result.array("matched")[picked]]
    scaled = normalize(found, dim=1) * PIXEL_STD * found.shape[1] ** 0.5
    rows = [
        ("read out", (scaled + mean).clamp(0, 1), "black"),
        ("training image", (train[picked] + mean).clamp(0, 1), "grey"),
    ]
    return image_rows(rows, [[f"{value:.2f}" for value in score[picked].tolist()]])


PRIOR_FIGURES: dict[str, Callable[[Result[PriorMetrics]], Figure]] = {"prior": plot_prior, "pairs": plot_pairs}
