"""Chapter 16's sentences, each with what decides it."""

from __future__ import annotations

from recon.chapters.leakage_batches.metrics import Client, Counted, Metrics, Mixtures, Separated, Solved
from recon.chapters.leakage_batches.sizes import Sizes
from recon.scoring.nulls import clears
from recon.store.results import Claim

EXACT = 1e-9  # of a pixel
ROUNDING = 1e-8  # relative residual of images that explain the gradient


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """One sentence for each question."""
    enough = [row for row in metrics.batches if row.equations >= row.unknowns]  # which the adversary can count
    few = [row for row in enough if row.n <= metrics.classes - 2 and not row.same]
    alike = [row for row in metrics.batches if row.same]
    return [
        mixture_claim(metrics.mixtures),
        batch_claim(few, metrics),
        *open_claims([row for row in metrics.batches if row.missing < 0]),
        *same_label_claims(alike),
        client_claim(metrics.clients),
        label_claim(metrics.labels),
        separated_claim(metrics.separated),
    ]


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


def batch_claim(few: list[Solved], metrics: Metrics) -> Claim:
    """Up to two images fewer than classes, of different labels."""
    images, found = sum(row.n for row in few), sum(row.found for row in few)
    wrong = [row for row in metrics.batches if row.certified and row.found < row.n]
    more = [row for row in metrics.batches if row.n > metrics.classes - 2 and not row.same]
    beyond = "; ".join(f"{row.found} of {row.n} ({row.channels} channels)" for row in more)
    return Claim(
        "batches-determined",
        "C&C Appendix G",
        "The mean gradient of a few images of different labels determines every one of them, and Gauss–Newton from "
        "faint noise finds them to half a grey level.",
        "no approach with guarantees known to the authors",
        f"{found} of {images} images found, in batches of {', '.join(str(row.n) for row in few)}; the largest batch "
        f"with a certificate has {max((row.n for row in metrics.batches if row.certified), default=0)} images; "
        f"{len(wrong)} certificates are wrong" + (f"; beyond as many as classes: {beyond}" if beyond else ""),
        f"grey: MSE {max(row.grey_mse for row in few):.3g}, 0 found; ours at most {max(row.mse for row in few):.1g}",
        "not reproduced" if wrong or not found else ("finding" if found == images else "partly"),
        value=float(found),
        null_value=0.0,
    )


def open_claims(rows: list[Solved]) -> list[Claim]:
    """Batches whose gradient leaves something open; none without one."""
    if not rows:
        return []
    images, found = sum(row.n for row in rows), sum(row.found for row in rows)
    others = [row for row in rows if row.residual <= ROUNDING and not row.found]
    held = found == 0 and not any(row.certified for row in rows)
    return [
        Claim(
            "batches-open",
            "C&C Appendix G",
            "A mean gradient with fewer independent equations than its batch has unknown pixels does not give the "
            "batch: Gauss–Newton ends at other images that have the same gradient, and no image is found.",
            "no approach with guarantees known to the authors",
            f"{found} of {images} images found; other images with the same gradient for {len(others)} of {len(rows)} "
            "batches: "
            + "; ".join(
                f"n = {row.n}, {row.channels} channels ({-row.missing} of {row.unknowns} equations missing, residual "
                f"{row.residual:.0e}, MSE {row.mse:.2g})"
                for row in rows
            ),
            f"grey: MSE {min(row.grey_mse for row in rows):.2g} to {max(row.grey_mse for row in rows):.2g}",
            "finding" if held and len(others) == len(rows) else ("partly" if held and others else "not reproduced"),
            value=float(found),
            null_value=0.0,
        )
    ]


def same_label_claims(rows: list[Solved]) -> list[Claim]:
    """Where labels do not tell images apart; none without such a batch."""
    if not rows:
        return []
    images, found = sum(row.n for row in rows), sum(row.found for row in rows)
    return [
        Claim(
            "batches-one-label",
            "",
            "Images of one label come apart as well.",
            "",
            "; ".join(
                f"{row.found} of {row.n} ({row.side} × {row.side}, {row.channels} channels, MSE {row.mse:.1g})"
                for row in rows
            ),
            f"grey: MSE {max(row.grey_mse for row in rows):.3g}, 0 found",
            "finding" if found == images else ("partly" if found else "not reproduced"),
            value=float(found),
            null_value=0.0,
        )
    ]


def client_claim(rows: list[Client]) -> Claim:
    """Federated averaging."""
    several = [row for row in rows if row.k > 1]
    found, images = sum(row.found for row in several), sum(row.n for row in several)
    naive = sum(row.naive_found for row in several)
    return Claim(
        "batches-local-steps",
        "",
        "Local steps hide nothing from an adversary who goes through them: their number, the step size and the batch "
        "being known, the images are found as from one gradient.",
        "",
        "; ".join(f"after {steps(row.k)} {row.found} of {row.n} images (MSE {row.mse:.1g})" for row in rows),
        "the update taken for one gradient: "
        + "; ".join(f"after {steps(row.k)} {row.naive_found} of {row.n} (MSE {row.naive_mse:.1g})" for row in rows),
        "finding" if found == images > naive else ("partly" if found > naive else "not reproduced"),
        value=float(found),
        null_value=float(naive),
    )


def steps(k: int) -> str:
    """1 step, 2 steps."""
    return f"{k} step" if k == 1 else f"{k} steps"


def label_claim(rows: list[Counted]) -> Claim:
    """Label inference with its error."""
    several = [row for row in rows if row.n > 1]
    better = [(row.untrained < row.equal / 2, row.trained < row.equal / 2) for row in several if row.equal > 0]
    start, trained = (all(each) for each in zip(*better, strict=True))
    return Claim(
        "batches-labels",
        "",
        "The labels of a batch need not be known: the gradient of the last bias counts them, with less than half of "
        "the errors of guessing, before training and after.",
        "the true labels are given",
        "wrong labels on the untrained and on the trained network: "
        + "; ".join(f"n = {row.n}: {row.untrained:.0%} and {row.trained:.0%}" for row in rows),
        "wrong by taking every label for equally frequent: "
        + "; ".join(f"n = {row.n}: {row.equal:.0%}" for row in rows),
        "finding" if start and trained else ("partly" if start or trained else "not reproduced"),
        value=several[-1].untrained,
        null_value=several[-1].equal,
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
