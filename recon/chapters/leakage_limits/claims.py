"""Two sentences: one on a network that the paper leaves open, one on a server that it trusts."""

from __future__ import annotations

from recon.chapters.leakage_limits.metrics import Block, Metrics
from recon.chapters.leakage_limits.sizes import Sizes
from recon.store.results import Claim

NEAR = 0.9  # of the images that are alone in their bin


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """Residual block, imprint."""
    return [residual_claim(metrics, sizes), kink_claim(metrics), imprint_claim(metrics)]


def in_words(rows: list[Block]) -> str:
    """Found, known and determined, network by network."""
    return "; ".join(
        f"{row.name}: determined {row.determined}, found {row.found}, known {row.known} of {len(row.mse)} "
        f"(rank {row.rank} of {row.unknowns})"
        for row in rows
    )


def smooth(metrics: Metrics, yes: bool = True) -> list[Block]:
    """Networks with tanh, or those with ReLU."""
    return [row for row in metrics.blocks if row.name.startswith("tanh") == yes]


def residual_claim(metrics: Metrics, sizes: Sizes) -> Claim:
    """With a smooth activation."""
    rows = smooth(metrics)
    found, images = sum(row.found for row in rows), sum(len(row.mse) for row in rows)
    wrong = sum(row.falsely_known for row in rows)
    grey = sum(metrics.grey) / len(metrics.grey)
    return Claim(
        "leakage-residual",
        "C&C Appendix G",
        "The attack can be adapted to residual networks.",
        "left open; by a Taylor expansion of the block",
        f"images of {sizes.side} × {sizes.side} through one residual block with batch norm and tanh, Gauss–Newton on "
        f"the whole gradient: {in_words(rows)}; falsely known {wrong}",
        f"a grey image: MSE {grey:.2g}, none found",
        "reproduced" if found == images and not wrong else ("partly" if found else "not reproduced"),
        value=found / images,
        null_value=0.0,
    )


def kink_claim(metrics: Metrics) -> Claim:
    """With ReLU, as residual networks have it."""
    rows = smooth(metrics, yes=False)
    images = sum(len(row.mse) for row in rows)
    determined, found = sum(row.determined for row in rows), sum(row.found for row in rows)
    known, wrong = sum(row.known for row in rows), sum(row.falsely_known for row in rows)
    few = found < 0.5 * determined
    return Claim(
        "residual-relu",
        "",
        "ReLU is no protection by what it determines, only by how hard it is to search.",
        "",
        f"{in_words(rows)}; falsely known {wrong}",
        "tanh: " + in_words(smooth(metrics)),
        "not reproduced" if determined < 0.5 * images or wrong else ("finding" if few else "partly"),
        value=found / images,
        null_value=known / images,
    )


def imprint_claim(metrics: Metrics) -> Claim:
    """A malicious server against the prediction from bins."""
    near = [row.found >= NEAR * row.alone for row in metrics.imprint]
    known = sum(row.known for row in metrics.imprint)
    wrong = sum(row.falsely_known for row in metrics.imprint)
    most = max(metrics.imprint, key=lambda row: row.found)
    return Claim(
        "leakage-imprint",
        "",
        "A server that chooses the network reads a batch through one layer: every image that is alone in its bin.",
        "",
        "found of the batch (alone in their bin): "
        + "; ".join(f"{row.found} of {row.n} ({row.alone}), {row.bins} bins" for row in metrics.imprint)
        + f"; candidates that the server holds to be one image {known}, of these wrong {wrong}",
        "expected alone, if bins were equally likely: "
        + "; ".join(f"{row.expected:.0f} of {row.n}, {row.bins} bins" for row in metrics.imprint),
        "finding" if all(near) and wrong <= 0.02 * known else ("partly" if any(near) else "not reproduced"),
        value=most.found,
        null_value=round(most.expected),
    )
