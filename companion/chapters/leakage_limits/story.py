"""The sentence on a server that the paper trusts."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_limits.experiment import Metrics, Sizes
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.results import Claim, Result, graded

NEAR = 0.9  # of the images that are alone in their bin
FEW = 0.1  # of the candidates that the server holds to be images


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """A malicious server against an honest one with a layer as wide."""
    rows = metrics.imprint
    good = [
        row.found > row.honest
        and row.found >= NEAR * row.alone
        and row.falsely_known <= max(1, FEW * row.known)
        for row in rows
    ]
    most = max(rows, key=lambda row: row.found)
    return [
        claim(
            "leakage-imprint",
            {"imprint": rows, "most": most},
            verdict=graded(*good),
            value=most.found,
            null_value=most.honest,
        )
    ]


def largest(metrics: Metrics) -> tuple[int, list[int]]:
    """Images of the largest batch, and all numbers of bins."""
    return max(row.n for row in metrics.imprint), sorted({row.bins for row in metrics.imprint})


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """Some images of the largest batch, and what was read of them, (bins, images, d)."""
    n, bins = largest(metrics)
    read = torch.stack([arrays[f"read {n} {number}"] for number in bins])
    return {"sent": levels(arrays[f"sent {n} {bins[0]}"]), "read": levels(read)}


@photographs
def plot_server(result: Result[Metrics]) -> Figure:
    """Images of the largest batch, and the nearest candidate by the number of bins."""
    n, bins = largest(result.metrics)
    rows = [(f"sent, in a\nbatch of {n}", result.figure("sent"), "grey")]
    for number, read in zip(bins, result.figure("read"), strict=True):
        rows.append((f"{number} bins", read, "black"))
    return image_rows(rows)


FIGURES = {"server": plot_server}
