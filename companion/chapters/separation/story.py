"""Chapter 6's sentences, with nulls; the rules were written before the runs that they judge."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy.stats import binomtest, hypergeom
from torch import Tensor
from torch.nn.functional import normalize, pad
from torchvision.utils import make_grid

from companion.chapters.claims import claim
from companion.chapters.pictures import (
    FRAMES,
    PAGE,
    REFERENCE,
    SERIES,
    as_pixels,
    chart,
    note,
    photographs,
)
from companion.chapters.separation.experiment import Metrics, Sizes
from companion.chapters.tables import null_text
from companion.store.record import Record
from companion.store.results import Claim, Result, graded
from recon.attacks.separation import PIXEL_STD
from recon.scoring.matching import one_to_one, padded
from recon.scoring.nulls import clears

COLUMNS = 20  # of pairs in a picture
GAP = 2  # pixels of a frame
LEVEL = 0.01
RIGHT = 0.95  # share of the sure ones that must be true


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the chapter says."""
    matches = metrics.matches
    best = metrics.best_null
    nulls = {name: null_text(best[name], metrics.best_null_name[name]) for name in best}
    return [
        claim(
            "separation-unmixes",
            {**metrics, "nulls": nulls},
            verdict="finding" if clears(matches.ncc_07, best.ncc_07) else "not reproduced",
            value=matches.ncc_07,
            null_value=best.ncc_07,
        ),
        _would_know(metrics.certainty),
    ]


def _would_know(certainty: Record) -> Claim:
    """On the network with the most images, where many candidates are false: where nearly all are
    true, "believe everything" does as well. A finding if they know (`knows`), "partly" if the lift
    alone is beyond chance.
    """
    name, row = max(certainty.networks.items(), key=lambda item: item[1].candidates)
    share = row.true / max(row.candidates, 1)
    right = sure_and_true(row)
    low, high = binomtest(right, row.sure).proportion_ci() if row.sure else (0.0, 1.0)
    values = {
        **row,
        "name": name,
        "right": right,
        "precision": text(row.precision_sure),
        "low": low,
        "high": high,
        "lift": (row.precision_sure or 0.0) / max(share, 1e-9),
        "area": text(row.auc),
        "share": share,
    }
    return claim(
        "separation-would-know",
        values,
        verdict=graded(by_chance(row) < LEVEL, knows(row)),
        value=row.precision_sure,
        null_value=share,
        margin=low - share,
    )


def sure_and_true(row: Record) -> int:
    """Candidates."""
    return round((row.precision_sure or 0.0) * row.sure)


def by_chance(row: Record) -> float:
    """Probability that as many of the sure ones are true, if these are drawn from all
    candidates.
    """
    return float(hypergeom.sf(sure_and_true(row) - 1, row.candidates, row.true, row.sure))


def knows(row: Record) -> bool:
    """Whether an adversary who says "sure" is right, says it of a fifth of the true ones, and beats
    the base rate.
    """
    return (row.precision_sure or 0.0) >= RIGHT and row.recall_sure > 0.2 and by_chance(row) < LEVEL


def text(value: float | None) -> str:
    """Two digits, or "not defined"."""
    return "not defined" if value is None else f"{value:.2f}"


def shown(result: Result[Metrics], x: Tensor) -> Tensor:
    """Centred images (n, d) at the root mean square of a photograph, plus the training mean,
    clipped to [0, 1].
    """
    scaled = normalize(x, dim=1) * PIXEL_STD * x.shape[1] ** 0.5
    return (scaled + result.array("mean")).clamp(0, 1)


def matched(result: Result[Metrics], key: str) -> tuple[Tensor, Tensor, Tensor]:
    """(images (n, d), candidate of each (n, d), NCC (n,)), best first;

    Args:
        key: "x_train" or "x_held_out".
    """
    images = result.array(key)
    candidates = padded(result.array("x_hat"), len(images))
    match = one_to_one(images, candidates)
    order = match.score.argsort(descending=True)
    return images[order], candidates[match.index[order]], match.score[order]


@photographs
def plot_all(result: Result[Metrics]) -> Figure:
    """Every training image (blue) under the candidate assigned to it (orange), best first, as one
    picture.
    """
    train, found, _ = matched(result, "x_train")
    pairs = (("recovered", shown(result, found)), ("training", train + result.array("mean")))
    tiles = []
    for frame, images in pairs:
        pixels = torch.stack([torch.from_numpy(as_pixels(x)) for x in images]).permute(0, 3, 1, 2)
        colours = (*to_rgb(FRAMES[frame]["color"]), 1.0)
        channels = (*pixels.unbind(1), torch.ones_like(pixels[:, 0]))  # the last: opaque
        framed = [pad(x, [GAP] * 4, value=v) for x, v in zip(channels, colours, strict=True)]
        tiles.append(torch.stack(framed, 1))
    lines = pad(torch.cat(tiles, 2), (0, 0, 0, 2 * GAP))  # between them it is clear
    grid = make_grid(lines, nrow=min(COLUMNS, len(lines)), padding=0)
    canvas = as_pixels(grid)
    figure, ax = plt.subplots(figsize=(PAGE, PAGE * canvas.shape[0] / canvas.shape[1]))
    ax.imshow(canvas, interpolation="nearest")
    ax.axis("off")
    figure.subplots_adjust(0, 0, 1, 1)
    return figure


@chart
def plot_reliability(result: Result[Metrics]) -> Figure:
    """What the adversary says against what is so, in bins of candidates; dotted: what is promised
    holds.
    """
    figure, ax = plt.subplots(figsize=(0.6 * PAGE, 3.4))
    ax.plot([0, 1], [0, 1], color=REFERENCE, lw=0.8, ls=":")
    bins = np.array(result.metrics.certainty.reliability)
    ax.plot(bins[:, 0], bins[:, 1], "o", color=SERIES[0])
    for x, y, k in bins:
        note(ax, f"{k:.0f} candidates" if k == bins[:, 2].max() else f"{k:.0f}", (x, y), (9, -4))
    ax.set(
        xlabel="probability the adversary gives",
        ylabel="share that is true",
        xlim=(0, 1.05),
        ylim=(-0.03, 1.05),
    )
    return figure


FIGURES = {"all": plot_all, "reliability": plot_reliability}
