"""Two sentences: on a network that the paper leaves open, and on a server that it trusts."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.chapters.leakage_common import LEAST
from companion.chapters.leakage_limits.experiment import Metrics, Sizes
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, TRAIN, activations_in, chart, image_rows
from companion.store.results import Claim, Result

NEAR = 0.9  # of the images that are alone in their bin
FEW = 0.1  # of the candidates that the server holds to be images


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """Residual block, imprint."""
    return [residual_claim(metrics, sizes), imprint_claim(metrics)]


def residual_claim(metrics: Metrics, sizes: Sizes) -> Claim:
    """With a smooth activation."""
    rows = [row for row in metrics.blocks if row.name.startswith("tanh")]
    found, images = sum(row.found for row in rows), sum(len(row.mse) for row in rows)
    wrong = sum(row.falsely_known for row in rows)
    matched = sum(row.matched_found for row in rows)
    return Claim(
        "leakage-residual",
        "",
        "Gauss–Newton on the whole gradient goes through a residual block with batch norm (its means and variances "
        "fixed) and tanh, and the adversary knows where it arrived.",
        "residual networks are left open; by a Taylor expansion of the block",
        f"images of {sizes.side} × {sizes.side}: "
        + "; ".join(
            f"{row.name}: of {len(row.mse)} images {row.determined} are locally determined, {row.found} found, "
            f"{row.known} known to be found"
            for row in rows
        )
        + f"; {wrong} wrongly held to be found",
        f"Adam on the cosine: {matched} found, MSE "
        + "; ".join(f"{row.name} {np.mean(row.matched):.2g}" for row in rows)
        + f"; a grey image {np.mean(metrics.grey):.2g}",
        "not reproduced" if wrong or found <= matched else ("finding" if found == images else "partly"),
        value=found,
        null_value=matched,
    )


def imprint_claim(metrics: Metrics) -> Claim:
    """A malicious server against an honest one with a layer as wide."""
    rows = metrics.imprint
    good = [
        row.found > row.honest and row.found >= NEAR * row.alone and row.falsely_known <= max(1, FEW * row.known)
        for row in rows
    ]
    most = max(rows, key=lambda row: row.found)
    return Claim(
        "leakage-imprint",
        "",
        "A server that chooses the network reads every image of a batch that is alone in its bin, and knows which of "
        "its candidates are images.",
        "as reported (Fowl et al. 2022)",
        "images read: "
        + "; ".join(
            f"{row.found} of {row.n} with {row.bins} bins ({row.alone} alone in theirs; {row.known} held to be images"
            + (f", {row.falsely_known} wrongly)" if row.falsely_known else ")")
            for row in rows
        ),
        "from the rows of an ordinary layer as wide: "
        + "; ".join(f"{row.honest} of {row.n} with {row.bins} units" for row in rows)
        + f"; by chance {most.expected:.0f} of {most.n} would be alone in {most.bins} bins",
        "finding" if all(good) else ("partly" if any(good) else "not reproduced"),
        value=most.found,
        null_value=most.honest,
    )


FOUND: dict[str, Any] = {"color": TRAIN, "mec": "none"}
BY_ADAM: dict[str, Any] = {"mfc": "none", "mec": SERIES[1]}


@chart
def plot_blocks(result: Result[Metrics]) -> Figure:
    """Error of every image behind a residual block, network by network: Gauss–Newton's (dots) and Adam's (rings)."""
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 0.42 * len(metrics.blocks) + 0.8))
    for y, row in enumerate(metrics.blocks):
        for errors, shift, style in ((row.mse, -0.13, FOUND), (row.matched, 0.13, BY_ADAM)):
            ax.plot(np.maximum(errors, LEAST), [y + shift] * len(errors), "o", ms=5, alpha=0.7, **style)
    ax.plot([], [], "o", ms=5, label="Gauss–Newton", **FOUND)
    ax.plot([], [], "o", ms=5, label="Adam", **BY_ADAM)
    ax.set_yticks(range(len(metrics.blocks)), [activations_in(row.name) for row in metrics.blocks])
    ax.set(xscale="log", xlabel="mean squared error", ylim=(len(metrics.blocks) - 0.5, -0.5))
    ax.axvline(float(np.mean(metrics.grey)), color=REFERENCE, linestyle="--", label="a grey image\n(null)")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def plot_server(result: Result[Metrics]) -> Figure:
    """Images of the largest batch, and the nearest candidate by the number of bins."""
    metrics = result.metrics
    n = max(row.n for row in metrics.imprint)
    bins = sorted({row.bins for row in metrics.imprint})
    rows = [(f"sent, in a\nbatch of {n}", result.array(f"sent {n} {bins[0]}"), "grey")]
    rows += [(f"{each} bins", result.array(f"read {n} {each}"), "black") for each in bins]
    return image_rows(rows)


FIGURES = {"blocks": plot_blocks, "server": plot_server}
