"""Chapter 11's sentences on images beyond the paper's two: which energy, which steps, and who wins at equal footing."""

from __future__ import annotations

from companion.chapters.leakage_attacks.metrics import MatchingMetrics
from companion.chapters.leakage_attacks.sizes import MatchingSizes
from companion.chapters.leakage_common import Ratio
from companion.store.results import Claim

SUFFIXES = {"": "as the paper has them", "_whole": "whole gradient", "_steps": "Geiping's steps", "_both": "both"}


def matching_claims(metrics: MatchingMetrics, _: MatchingSizes) -> list[Claim]:
    """On all networks and images together."""
    return [authors(metrics), equal_footing(metrics)]


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


def extent(metrics: MatchingMetrics) -> str:
    """Of networks and images."""
    return f"geometric mean over {len(metrics.networks)} networks and {len(metrics.index)} images"


def judged(ratios: list[Ratio]) -> str:
    """Of a sentence that says that all are lower: undecided if no interval tells."""
    said = [ratio.lower for ratio in ratios]
    if all(each is None for each in said):
        return "undecided"
    return "finding" if all(said) else ("partly" if any(said) else "not reproduced")
