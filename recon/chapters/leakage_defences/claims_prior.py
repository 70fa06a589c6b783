"""Chapter 17's sentences on an adversary who knows photographs, each with what decides it."""

from __future__ import annotations

import math
from statistics import geometric_mean as mean

import numpy as np

from recon.chapters.leakage_common import Ratio
from recon.chapters.leakage_defences.metrics import PriorMetrics, Public
from recon.chapters.leakage_defences.sizes import PriorSizes
from recon.store.results import Claim

USUAL = 8.0  # an ε of training that is called private in practice
TENTH = 0.1  # of the gradient's norm on every entry
WITHIN = 2.0  # factor between predicted and found error
NO_BETTER = 0.8  # of the better null's error: what counts as nothing left
WHOLE = "photographs' mean and covariance"


def prior_claims(metrics: PriorMetrics, sizes: PriorSizes) -> list[Claim]:
    """What the prior adds, whether a tenth hides, whether private training does, and whether the adversary knows."""
    return [helps_claim(metrics, sizes), tenth_claim(metrics), private_claim(metrics), predicted_claim(metrics)]


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


def gain(row: Public) -> Ratio:
    """Error with the prior over that without, on the same noisy gradients."""
    return Ratio.of(np.log10(row.mse) - np.log10(row.blind))


def helps_claim(metrics: PriorMetrics, sizes: PriorSizes) -> Claim:
    """The same noisy gradients, with and without the prior; all images of the pool but the attacked ones are public."""
    last = next(name for name in reversed(sizes.networks) if name in metrics.grey)
    pool = metrics.n_public + len(metrics.grey[last])
    gains = {name: {row.z: gain(row) for row in rows} for name, rows in metrics.noise.items()}
    lower = [each.lower for by_z in gains.values() for each in by_z.values()]
    tenths = [by_z[TENTH].mean for by_z in gains.values() if TENTH in by_z]
    return Claim(
        "prior-helps",
        "",
        f"Whoever knows {WHOLE} gets more out of a noisy gradient than whoever takes every pixel by itself.",
        "",
        "error with the prior over that without, geometric mean and its interval: "
        + "; ".join(
            f"{name} ({len(metrics.grey[name])} images, {pool - len(metrics.grey[name])} public ones) "
            + ", ".join(f"z = {z:g} {each}" for z, each in by_z.items())
            for name, by_z in gains.items()
        ),
        "1 for no difference",
        "finding" if all(lower) else "partly" if any(lower) else "not reproduced",
        value=max(tenths, default=None),
        null_value=1.0,
    )


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


def private_claim(metrics: PriorMetrics) -> Claim:
    """Whether the least noise of the grid that is called private in training hides a single image."""
    usual = min((row.z for row in metrics.privacy if row.training <= USUAL), default=math.inf)
    nulls = {name: null_of(metrics, name) for name in metrics.noise}
    hides = {name: hidden_from(rows, nulls[name]) or math.inf for name, rows in metrics.noise.items()}
    hidden = [z <= usual for z in hides.values()]
    at = [
        f"{name} {mean(row.mse) / nulls[name]:.2f}, {np.mean(row.ncc):.2f}, {row.own} of {len(row.ncc)}"
        for name, rows in metrics.noise.items()
        for row in rows
        if row.z == usual
    ]
    return Claim(
        "defences-private",
        "",
        f"The noise of private training hides a single image that is released once, also from whoever knows {WHOLE}.",
        "",
        "hidden from "
        + ", ".join(f"{name} {in_words(z)}" for name, z in hides.items())
        + f" on; training (10 000 steps, batches of 256 from 50 000) has ε of at most {USUAL:g} from z = {usual:g} on, "
        "and there error over the better null's, NCC, and images nearer to their own than to every public one are: "
        + "; ".join(at),
        "ε of one release and of training: "
        + "; ".join(f"z = {row.z:g}: {row.once:.3g} and {row.training:.3g}" for row in metrics.privacy),
        "undecided"
        if math.isinf(usual)
        else ("finding" if all(hidden) else "partly" if any(hidden) else "not reproduced"),
        value=None if math.isinf(max(hides.values())) else max(hides.values()),
        null_value=None if math.isinf(usual) else usual,
    )


def predicted_claim(metrics: PriorMetrics) -> Claim:
    """The adversary's own estimate of their error."""
    ratios = {name: [mean(row.mse) / mean(row.predicted) for row in rows] for name, rows in metrics.noise.items()}
    every = [ratio for each in ratios.values() for ratio in each]
    near = [1 / WITHIN <= ratio <= WITHIN for ratio in every]
    return Claim(
        "prior-predicted",
        "",
        f"Whoever knows {WHOLE} also knows how far off they are: the posterior variance is within a factor of two of "
        "the error at every noise.",
        "",
        "the error is between these multiples of the predicted one: "
        + "; ".join(f"{name} {min(each):.2f} and {max(each):.2f}" for name, each in ratios.items()),
        "predicting the better null's error at every noise is off by a factor of up to "
        f"{max(null_of(metrics, name) / mean(rows[0].mse) for name, rows in metrics.noise.items()):.0e}",
        "finding" if all(near) else ("partly" if sum(near) >= 0.8 * len(near) else "not reproduced"),
        value=max(max(every), 1 / min(every)),
        null_value=WITHIN,
    )
