"""The sentences of appendix E, each with what decides it."""

from __future__ import annotations

import math
from statistics import fmean as mean

import numpy as np

from companion.chapters.claims import claim
from companion.chapters.leakage_common import graded
from companion.chapters.leakage_defences.experiment import Metrics, Sizes
from companion.store.record import Record
from companion.store.results import Claim

WITHIN = 2.0  # factor between predicted and found error
NO_BETTER = 0.8  # of the null's error: what counts as nothing left


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Noise, its prediction, and c(M)."""
    return [noise_claim(metrics), predicted_claim(metrics), metric_claim(metrics)]


def noise_claim(metrics: Metrics) -> Claim:
    """The least noise that leaves nothing, by network."""
    hides = {
        name: hidden_from(rows, mean(metrics.grey[name])) for name, rows in metrics.noise.items()
    }
    words = {name: "none tried" if z is None else f"z = {z:g}" for name, z in hides.items()}
    least = [f"{name} ({len(metrics.grey[name])} images) {z}" for name, z in words.items()]
    most = max(row.z for row in next(iter(metrics.noise.values())))
    lost = {name: rgap_lost(rows, metrics, name) for name, rows in metrics.noise.items()}
    return claim(
        "leakage-noise",
        ours=(
            "for this attacker the most probable image is no better than grey (its error is above"
            f" {NO_BETTER:.0%} of grey's) from this noise on: {', '.join(least)}, in units of the"
            " gradient's norm on every entry"
        ),
        null="a grey image; R-GAP is worse than grey from "
        + ", ".join(f"{name} z = {z:g}" for name, z in lost.items() if z is not None),
        verdict=graded(z is not None for z in hides.values()),
        value=max((z or math.inf) for z in hides.values()),
        null_value=most,
    )


def hidden_from(rows: list[Record], null: float) -> float | None:
    """The least z from which on the most probable image's error stays above `NO_BETTER` of the
    null's.
    """
    hides = None
    for row in reversed(rows):
        if mean(row.mse) < NO_BETTER * null:
            break
        hides = row.z
    return hides


def rgap_lost(rows: list[Record], metrics: Metrics, name: str) -> float | None:
    """The least z at which R-GAP is worse than grey."""
    worse = [
        row.z for row in rows if row.rgap is not None and mean(row.rgap) > mean(metrics.grey[name])
    ]
    return min(worse, default=None)


def predicted_claim(metrics: Metrics) -> Claim:
    """The adversary's own estimate of their error."""
    ratios = {
        name: [mean(row.mse) / mean(row.predicted) for row in rows]
        for name, rows in metrics.noise.items()
    }
    every = np.concatenate(list(ratios.values()))
    near = np.mean((every >= 1 / WITHIN) & (every <= WITHIN))
    off = max(mean(metrics.grey[name]) / mean(rows[0].mse) for name, rows in metrics.noise.items())
    return claim(
        "defences-predicted",
        ours="the error is between these multiples of the predicted one: "
        + "; ".join(f"{name} {min(each):.2f} and {max(each):.2f}" for name, each in ratios.items()),
        null=f"predicting grey's error at every noise is off by a factor of up to {off:.0e}",
        verdict=graded([bool(near == 1), bool(near >= 0.8)]),
        value=float(max(every.max(), 1 / every.min())),
        null_value=WITHIN,
    )


def metric_claim(metrics: Metrics) -> Claim:
    """The paper's one sentence on a defence."""
    lowered = [any(c < row.c[0] for c in row.c[1:]) for row in metrics.deficiency]
    return claim(
        "defences-metric",
        ours="; ".join(
            f"c(M) of {row.network} is "
            + ", ".join(f"{c} at σ = {s:g}" for s, c in zip(row.sigma, row.c, strict=True))
            for row in metrics.deficiency
        ),
        null="without noise: the first number of each",
        verdict=graded(lowered, "reproduced"),
        value=float(sum(lowered)),
        null_value=0.0,
    )
