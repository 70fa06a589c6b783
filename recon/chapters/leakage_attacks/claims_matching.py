"""Chapter 15's sentences on images beyond the paper's two: which energy, which steps, and who wins at equal footing."""

from __future__ import annotations

import numpy as np

from recon.chapters.leakage_attacks.metrics import MatchingMetrics
from recon.chapters.leakage_attacks.sizes import MatchingSizes
from recon.chapters.leakage_common import Ratio, spearman
from recon.chapters.published import LABELS
from recon.store.results import Claim

ATTACKS = ("cosine_tv", "hybrid")
PREDICTED = ("cosine_tv_both", "hybrid", "hybrid_both", "smoothest")
DRAWS = 1000  # of a bootstrap
SUFFIXES = {"": "as the paper has them", "_whole": "whole gradient", "_steps": "Geiping's steps", "_both": "both"}


def matching_claims(metrics: MatchingMetrics, _: MatchingSizes) -> list[Claim]:
    """On all networks and images together."""
    found = [authors(metrics), energy(metrics), equal_footing(metrics)]
    found += [smoothest(metrics)] if metrics.open else []
    return [*found, predictors(metrics)]


def name_of(method: str) -> str:
    """In words.

    >>> name_of("hybrid_whole"), name_of("rgap")
    ('Hybrid, whole gradient', 'R-GAP')
    """
    suffix = next((each for each in ("_whole", "_steps", "_both") if method.endswith(each)), "")
    words = {"": "", "_both": ", whole gradient and Geiping's steps"}.get(suffix, f", {SUFFIXES[suffix]}")
    base = method.removesuffix(suffix)
    return {**LABELS, "gauss_newton": "Gauss–Newton", "smoothest": "the smoothest solution"}[base] + words


def authors(metrics: MatchingMetrics) -> Claim:
    """Against Hybrid as published."""
    ratio = metrics.ratio("cosine_tv_both", "hybrid")
    each = {name: row.methods for name, row in metrics.networks.items()}
    better = [name for name, row in each.items() if row["cosine_tv_both"].typical < row["hybrid"].typical]
    return Claim(
        "leakage-authors-setting",
        "",
        "As its own authors run it, with one cosine over the whole gradient and their own steps, CosineTV has a lower "
        "error than Hybrid as published.",
        "not run",
        f"error over Hybrid's, {extent(metrics)}: {ratio}; lower on {len(better)} of {len(each)} networks",
        f"CosineTV as the paper runs it, over Hybrid's: {metrics.ratio('cosine_tv', 'hybrid')}; 1 for no difference",
        judged([ratio]),
        value=ratio.mean,
        null_value=1.0,
    )


def energy(metrics: MatchingMetrics) -> Claim:
    """One choice at a time, the other held."""
    pairs = [(attack, steps) for attack in ATTACKS for steps in (False, True)]
    ratios = {
        f"{LABELS[attack]}, {'Geiping' if steps else 'the paper'}'s steps": metrics.ratio(
            attack + ("_both" if steps else "_whole"), attack + ("_steps" if steps else "")
        )
        for attack, steps in pairs
    }
    return Claim(
        "leakage-energy",
        "",
        "One cosine over the whole gradient gives CosineTV and Hybrid a lower error than one cosine per tensor.",
        "only the sum was run",
        f"error with the one over that with the sum, {extent(metrics)}: "
        + "; ".join(f"{name} {ratio}" for name, ratio in ratios.items()),
        "1 for no difference",
        judged(list(ratios.values())),
        value=max(ratio.mean for ratio in ratios.values()),
        null_value=1.0,
    )


def equal_footing(metrics: MatchingMetrics) -> Claim:
    """The paper's comparison with the energy and the steps held; judged where both are at their best."""
    ratios = {SUFFIXES[suffix]: metrics.ratio("hybrid" + suffix, "cosine_tv" + suffix) for suffix in SUFFIXES}
    last = ratios[SUFFIXES["_both"]]
    return Claim(
        "leakage-equal-footing",
        "C&C 4",
        "Hybrid improves on CosineTV, given the same energy and the same steps: those of CosineTV's authors.",
        "compared with different steps and budgets",
        f"Hybrid's error over CosineTV's, {extent(metrics)}: "
        + "; ".join(f"{name} {ratio}" for name, ratio in ratios.items()),
        "1 for no difference",
        {True: "reproduced", False: "not reproduced", None: "undecided"}[last.lower],
        value=last.mean,
        null_value=1.0,
    )


def smoothest(metrics: MatchingMetrics) -> Claim:
    """The prior alone, on what the gradient leaves open."""
    ratios = {other: metrics.ratio("smoothest", other, metrics.open) for other in ("hybrid", "cosine_tv_both")}
    plain = metrics.ratio("gauss_newton", "hybrid", metrics.open)
    return Claim(
        "leakage-smoothest",
        "",
        "Where the gradient leaves images open, the smoothest of those that explain it is nearer to the victim than "
        "what gradient matching finds.",
        "",
        f"its error over that of another, geometric mean over {len(metrics.open)} networks and {len(metrics.index)} "
        "images: " + "; ".join(f"{name_of(other)} {ratio}" for other, ratio in ratios.items()),
        f"the solution nearest to grey (Gauss–Newton) over Hybrid: {plain}; 1 for no difference",
        judged(list(ratios.values())),
        value=max(ratio.mean for ratio in ratios.values()),
        null_value=plain.mean,
    )


def predictors(metrics: MatchingMetrics) -> Claim:
    """Rank correlations over networks, image by image; judged by intervals of their differences over networks."""
    found = {method: correlations(metrics, method) for method in PREDICTED}
    enough = len(metrics.networks) >= 3
    gaps = {method: over_networks(metrics, method) if enough else (0.0, 0.0) for method in PREDICTED}
    better = [method for method, (low, _) in gaps.items() if low > 0]
    worse = [method for method, (_, high) in gaps.items() if high < 0]
    words = [
        f"{name_of(method)} {c.mean():.2f} and {joint.mean():.2f} (difference {gaps[method][0]:.2f} to "
        f"{gaps[method][1]:.2f})"
        for method, (c, joint) in found.items()
    ]
    mine = found["cosine_tv_both"]
    return Claim(
        "leakage-predictors",
        "",
        "The joint rank says better than c(M) which network gives an image to gradient matching.",
        "c(M)",
        f"Spearman correlation over {len(metrics.networks)} networks with PSNR, mean over {len(metrics.index)} images, "
        "c(M) and joint rank, the difference with the central 95 % of its bootstrap over networks: "
        + "; ".join(words)
        + ("" if enough else f"; these say nothing: {len(metrics.networks)} networks are too few to rank"),
        "0 for unrelated numbers; the interval of a difference contains 0",
        "finding"
        if len(better) == len(found)
        else ("partly" if better else ("not reproduced" if worse else "undecided")),
        value=float(mine[1].mean()),
        null_value=float(mine[0].mean()),
    )


def predicted(metrics: MatchingMetrics, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every network: c(M), the joint rank without unread entries, (networks,), and PSNR (images, networks)."""
    rows = list(metrics.networks.values())
    c, missing = np.array([row.c for row in rows]), np.array([row.missing for row in rows])
    return c, missing, -np.array([row.methods[method].logs for row in rows]).T


def correlations(metrics: MatchingMetrics, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Of each image's PSNR with c(M), and with the joint rank, over networks, (images,) each; 0 where one side does not
    vary."""
    c, missing, decibels = predicted(metrics, method)
    return spearman(np.tile(c, (len(decibels), 1)), decibels), spearman(np.tile(missing, (len(decibels), 1)), decibels)


def over_networks(metrics: MatchingMetrics, method: str) -> tuple[float, float]:
    """Central 95 % of a bootstrap over networks of how much the joint rank's mean correlation is above c(M)'s.

    Draws in which c(M) or the joint rank is the same for all networks have no correlation and are left out.
    """
    c, missing, decibels = predicted(metrics, method)
    drawn = np.random.default_rng(0).integers(0, len(c), (DRAWS, len(c)))
    drawn = drawn[(np.ptp(c[drawn], axis=1) > 0) & (np.ptp(missing[drawn], axis=1) > 0)]
    if not len(drawn):
        return 0.0, 0.0
    resampled = decibels[:, drawn]  # (images, draws, networks)
    joint, metric = (spearman(np.broadcast_to(each[drawn], resampled.shape), resampled) for each in (missing, c))
    low, high = np.quantile((joint - metric).mean(0), (0.025, 0.975))
    return float(low), float(high)


def extent(metrics: MatchingMetrics) -> str:
    """Of networks and images."""
    return f"geometric mean over {len(metrics.networks)} networks and {len(metrics.index)} images"


def judged(ratios: list[Ratio]) -> str:
    """Of a sentence that says that all are lower: undecided if no interval tells."""
    said = [ratio.lower for ratio in ratios]
    if all(each is None for each in said):
        return "undecided"
    return "finding" if all(said) else ("partly" if any(said) else "not reproduced")
