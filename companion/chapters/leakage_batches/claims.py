"""Appendix D's sentences, each with what decides it."""

from __future__ import annotations

from companion.chapters.leakage_batches.metrics import Metrics, Mixtures, Separated
from companion.chapters.leakage_batches.sizes import Sizes
from companion.store.results import Claim
from recon.scoring.nulls import clears

EXACT = 1e-9  # of a pixel


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What eq. (4) returns, and what separation does."""
    return [mixture_claim(metrics.mixtures), separated_claim(metrics.separated)]


def mixture_claim(mixed: Mixtures) -> Claim:
    """What eq. (4) and R-GAP make of the mean of several gradients."""
    exact = max(mixed.mixture_error) <= EXACT
    own = all(share > 1 / n for n, share in zip(mixed.sizes, mixed.share_of_own, strict=True))
    return Claim(
        "leakage-batches",
        "C&C 5, Appendix G",
        "For batches larger than one eq. (4) returns mixtures of the images.",
        "batch size 1 only",
        f"equal to Σ w_i x_i up to {max(mixed.mixture_error):.0e} in a pixel; share of the label's own image "
        + ", ".join(f"{s:.0%} (n = {n})" for n, s in zip(mixed.sizes, mixed.share_of_own, strict=True))
        + f"; R-GAP through CNN2 V1 on two images: MSE {mixed.rgap_mse.different_labels:.3g}, "
        f"with one label {mixed.rgap_mse.same_label:.3g}",
        "equal shares " + ", ".join(f"{1 / n:.0%}" for n in mixed.sizes) + f"; grey: MSE {mixed.grey_mse:.3g}",
        "finding" if exact and own else ("partly" if exact else "not reproduced"),
        value=mixed.share_of_own[-1],
        null_value=1 / mixed.sizes[-1],
    )


def separated_claim(rows: list[Separated]) -> Claim:
    """Many images through a fully connected first layer."""
    cleared = [row.n for row in rows if clears(row.matches.ncc_08, row.best_null.ncc_08)]
    return Claim(
        "batches-unmixed",
        "",
        "Where the first layer is fully connected, blind source separation takes large batches apart.",
        "",
        "above NCC 0.8: "
        + ", ".join(f"{row.matches.ncc_08} of {row.n}" for row in rows)
        + "; within a tenth of grey's MSE: "
        + ", ".join(f"{row.within} of {row.n}" for row in rows),
        "best null at 0.8: " + ", ".join(str(row.best_null.ncc_08) for row in rows),
        "finding" if len(cleared) == len(rows) else ("partly" if cleared else "not reproduced"),
        value=float(max(cleared, default=0)),
        null_value=0.0,
    )
