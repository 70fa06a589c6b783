"""The sentence of appendix E on an adversary who knows photographs, each with what decides it."""

from __future__ import annotations

import math
from statistics import geometric_mean as mean

import numpy as np

from companion.chapters.leakage_defences.metrics import PriorMetrics, Public
from companion.chapters.leakage_defences.sizes import PriorSizes
from companion.store.results import Claim

TENTH = 0.1  # of the gradient's norm on every entry
NO_BETTER = 0.8  # of the better null's error: what counts as nothing left
WHOLE = "photographs' mean and covariance"


def prior_claims(metrics: PriorMetrics, _: PriorSizes) -> list[Claim]:
    """Whether a tenth of the norm hides an image."""
    return [tenth_claim(metrics)]


def null_of(metrics: PriorMetrics, name: str) -> float:
    """The lower typical error of two guesses that see no gradient: a grey image, and the mean of public ones."""
    return min(mean(metrics.grey[name]), mean(metrics.mean[name]))


def hidden_from(rows: list[Public], null: float) -> float | None:
    """The least z from which on the most probable image's error stays above `NO_BETTER` of the null's."""
    hides = None
    for row in reversed(rows):
        if mean(row.mse) < NO_BETTER * null:
            break
        hides = row.z
    return hides


def in_words(z: float | None) -> str:
    """Of the least z that hides."""
    return "no z that was tried" if z is None or math.isinf(z) else f"z = {z:g}"


def tenth_claim(metrics: PriorMetrics) -> Claim:
    """What the weaker adversary is hidden from."""
    hides = {name: hidden_from(rows, null_of(metrics, name)) for name, rows in metrics.noise.items()}
    at = {name: next((row for row in rows if row.z == TENTH), None) for name, rows in metrics.noise.items()}
    rows = {name: row for name, row in at.items() if row is not None}
    left = {name: mean(row.mse) / null_of(metrics, name) for name, row in rows.items()}
    open_ = [share < NO_BETTER for share in left.values()]
    return Claim(
        "prior-tenth",
        "",
        f"A tenth of the gradient's norm on every entry does not hide an image from whoever knows {WHOLE}.",
        "",
        "error over the better null's at z = 0.1, and mean NCC with the image: "
        + "; ".join(f"{name} {left[name]:.2f} and {np.mean(row.ncc):.2f}" for name, row in rows.items())
        + "; nearer to its own image than to every public one: "
        + ", ".join(f"{name} {row.own} of {len(row.ncc)}" for name, row in rows.items())
        + f"; above {NO_BETTER:.0%} of the null's from "
        + ", ".join(f"{name} {in_words(z)}" for name, z in hides.items()),
        "the mean of the public images: error over a grey image's, and NCC, "
        + "; ".join(
            f"{name} {mean(metrics.mean[name]) / mean(metrics.grey[name]):.2f} and {np.mean(guessed):.2f}"
            for name, guessed in metrics.mean_ncc.items()
        )
        + "; without the prior, error over the better null's and NCC: "
        + "; ".join(
            f"{name} {mean(row.blind) / null_of(metrics, name):.2f} and {np.mean(row.blind_ncc):.2f}"
            for name, row in rows.items()
        ),
        "undecided" if not rows else ("finding" if all(open_) else "partly" if any(open_) else "not reproduced"),
        value=max(left.values(), default=None),
        null_value=NO_BETTER,
    )
