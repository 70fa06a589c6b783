"""Appendix B's sentence on separation with a learned prior; its rule was written before the run that is kept."""

from __future__ import annotations

from recon.chapters.tables import MatchTable, null_text
from recon.chapters.weights_leak.metrics import PriorMetrics
from recon.chapters.weights_leak.sizes import PriorSizes
from recon.scoring.nulls import clears
from recon.store.results import Claim

GOAL = 0.08  # of the images, beyond the best null above NCC 0.8: 40 of 500


def prior_claims(metrics: PriorMetrics, _: PriorSizes) -> list[Claim]:
    """Whether the prior finds more."""
    return [_finds_more(metrics)]


def _finds_more(metrics: PriorMetrics) -> Claim:
    """By yardsticks that photographs do not pass of themselves: NCC above 0.8, and SSIM above 0.4."""
    found, without, n = metrics.found, metrics.components, metrics.n_train
    enough = found.excess.ncc_08 >= GOAL * n and clears(found.matches.ncc_08, found.best_null.ncc_08)
    more = clears(found.matches.ssim_04, max(without.matches.ssim_04, found.best_null.ssim_04))
    return Claim(
        "separation-prior",
        "",
        "Where independent components end, a prior learned on public photographs goes on: it finds at least 8 % of the "
        "images beyond the best null above NCC 0.8, and more than independent components by SSIM above 0.4.",
        "",
        f"of {n} images NCC above 0.8: {found.matches.ncc_08}, SSIM above 0.4: {found.matches.ssim_04}; by independent "
        f"components alone {without.matches.ncc_08} and {without.matches.ssim_04}",
        f"best null: {null_text(found.best_null.ncc_08, found.best_null_name.ncc_08)} and "
        f"{null_text(found.best_null.ssim_04, found.best_null_name.ssim_04)}",
        "finding" if enough and more else ("partly" if enough or more else "not reproduced"),
        value=found.matches.ncc_08,
        null_value=found.best_null.ncc_08,
    )


def ways(metrics: PriorMetrics) -> list[tuple[str, MatchTable]]:
    """The three attacks in words, in the order in which one begins where the last ended."""
    return [
        ("independent components", metrics.components),
        ("prior, all orthogonal", metrics.orthogonal),
        ("prior, each on its own", metrics.found),
    ]
