"""Appendix B's sentence on separation with a learned prior. Its rule is a late one: see
book/changes.md.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.pictures import (
    FREE,
    PAGE,
    SERIES,
    TRAIN,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.chapters.tables import null_text
from companion.chapters.weights_leak.experiment_prior import Metrics as PriorMetrics
from companion.chapters.weights_leak.experiment_prior import PriorSizes
from companion.chapters.yardstick import LEVEL, blend_share, preference
from companion.store.results import Claim, Result, graded
from recon.attacks.separation import PIXEL_STD
from recon.scoring.nulls import clears

GOAL = 0.08  # of the images, beyond the best null above NCC 0.8: 40 of 500


def claims(metrics: PriorMetrics, _: PriorSizes) -> list[Claim]:
    """Whether the prior finds more, by yardsticks that photographs do not pass of themselves: NCC
    above 0.8, SSIM above 0.4, and the preference for training images in one competition with
    held-out ones, beyond that of the best blend (`companion.chapters.yardstick`).
    """
    found, without, n = metrics.found, metrics.components, metrics.n_train
    enough = found.excess.ncc_08 >= GOAL * n and clears(
        found.matches.ncc_08, found.best_null.ncc_08
    )
    more = clears(found.matches.ssim_04, max(without.matches.ssim_04, found.best_null.ssim_04))
    pair = found.competition.ncc_06
    # blends of this run, other photographs among them, and those of benchmarks/blends.json
    own = (each.targets / max(each.targets + each.decoys, 1) for each in metrics.blends.values())
    share = max([blend_share(n), *own])
    p_value = preference(pair, share)
    nulls = {
        name: null_text(count, found.best_null_name[name])
        for name, count in found.best_null.items()
    }
    return [
        claim(
            "separation-prior",
            {**metrics, "p_value": p_value, "share": share, "nulls": nulls},
            verdict=graded(enough, more, p_value < LEVEL),
            value=found.matches.ncc_08,
            null_value=found.best_null.ncc_08,
            margin=found.excess.ncc_08 - GOAL * n,
        )
    ]


def selected(_: PriorMetrics, arrays: Tensors, columns: int = 10) -> Tensors:
    """Ten training images, from the one found best to the worst in even steps, and what was
    assigned to each."""
    train, sources, score, mean = (arrays[name] for name in ("x_train", "x_hat", "ncc", "mean"))
    picked = torch.linspace(0, len(train) - 1, columns).round().long()
    assigned = torch.cat([sources, -sources])[arrays["matched"][picked]]
    scaled = normalize(assigned, dim=1) * PIXEL_STD * assigned.shape[1] ** 0.5
    return {
        "x_hat": levels(scaled + mean),
        "train": levels(train[picked] + mean),
        "ncc": score[picked],
    }


THRESHOLDS = (0.6, 0.7, 0.8)


@chart
def plot_prior(result: Result[PriorMetrics]) -> Figure:
    """Share of the images that each attack finds above each NCC, and the best null of the
    second.
    """
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    lines = {
        "independent components": (metrics.components.matches, SERIES[1]),
        "learned prior": (metrics.found.matches, TRAIN),
        "best null": (metrics.found.best_null, FREE),
    }
    for label, (counts, colour) in lines.items():
        shares = [100 * counts[f"ncc_{threshold}"] / metrics.n_train for threshold in THRESHOLDS]
        ax.plot(THRESHOLDS, shares, "o-", color=colour, label=label)
    ax.set(xlabel="NCC above", ylabel="training images recovered, %", xticks=THRESHOLDS)
    ax.set_ylim(bottom=-2)
    ax.legend()
    return figure


@photographs
def plot_pairs(result: Result[PriorMetrics]) -> Figure:
    """Training images, from the one found best to the worst, under what was assigned to each."""
    rows = [
        ("read out", result.figure("x_hat"), "black"),
        ("training image", result.figure("train"), "grey"),
    ]
    return image_rows(rows, [[f"{value:.2f}" for value in result.figure("ncc").tolist()]])


FIGURES = {"prior": plot_prior, "pairs": plot_pairs}
