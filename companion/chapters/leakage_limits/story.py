"""Two sentences: on a network that the paper leaves open, and on a server that it trusts."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from companion.chapters.leakage_limits.experiment import Metrics, Sizes
from companion.chapters.pictures import image_rows
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


def plot_server(result: Result[Metrics]) -> Figure:
    """Images of the largest batch, and the nearest candidate by the number of bins."""
    metrics = result.metrics
    n = max(row.n for row in metrics.imprint)
    bins = sorted({row.bins for row in metrics.imprint})
    rows = [(f"sent, in a\nbatch of {n}", result.array(f"sent {n} {bins[0]}"), "grey")]
    rows += [(f"{each} bins", result.array(f"read {n} {each}"), "black") for each in bins]
    return image_rows(rows)


FIGURES = {"server": plot_server}
