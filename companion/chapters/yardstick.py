"""Were training images recovered? The book's one rule, in three yardsticks, each a competition of
training with as many held-out images.

A raw count condemns nobody and acquits nobody. Above NCC 0.6 blends of photographs match a fifth of
500 training images. By SSIM a thousand other photographs, as they are, match up to 32, and by NCC
above 0.8 up to nine. But what knows nothing of the training set matches as many held-out images. So
a verdict asks whether of the images that an attack matches more were trained on than of those that
the best blend matches (exact binomial test, p < 0.01); a share, so that chance matches dilute it
and cannot raise it:

    preference   above NCC 0.6, both sets in one assignment
    SSIM > 0.4   the yardstick of Haim et al. (2022) and Buzaglo et al. (2023), each set by itself
    NCC > 0.8    each set by itself
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scipy.stats import binom

from companion.chapters.tables import null_text
from companion.store.record import Record
from companion.store.results import graded, orders_below
from recon.scoring.matching import Competition
from recon.scoring.nulls import HELD_OUT, NullTable

LEVEL = 0.01
BLENDS = Path(__file__).parents[2] / "benchmarks" / "blends.json"


@dataclass(frozen=True)
class Recovery:
    """What each yardstick says of an attack:

    Attributes:
        p_values: of the preference, by SSIM, by NCC.
        share: of the best blend's matches that were trained on.
    """

    p_values: tuple[float, float, float]
    share: float

    @property
    def margin(self) -> float:
        """Orders of magnitude by which the p-value of the preference is below `LEVEL`."""
        return orders_below(self.p_values[0], LEVEL)

    @property
    def verdict(self) -> str:
        """Of a sentence that says that images are recovered: it is reproduced by the preference and
        one of the other two, and not by none of the three.
        """
        preferred, *others = (p < LEVEL for p in self.p_values)
        return graded(preferred, any(others), best="reproduced")


@cache
def blend_share(n: int) -> float:
    """Share of training images among those that the best blend matches above NCC 0.6, for n
    training images and as many held-out ones; for a number between two that were measured that of
    the smaller, which is the larger share.

    >>> 0.5 < blend_share(500) < blend_share(100) == blend_share(120) < 1
    True
    """
    measured = json.loads(BLENDS.read_text(encoding="utf-8"))["by_n"]
    at = max((int(k) for k in measured if int(k) <= n), default=min(map(int, measured)))
    pairs = [by["ncc_0.6"] for by in measured[str(at)].values()]
    return max(targets / (targets + decoys) for targets, decoys in pairs)


def preference(found: Competition | Record, share: float) -> float:
    """Probability that of as many matches as there are so many or more are training images, if each
    is one with probability `share`.

    >>> round(preference(Competition(11, 1, 0.2, 0.0), 0.5), 4), preference(Competition(0, 0, 1.0, 1.0), 0.5)
    (0.0032, 1.0)
    """  # noqa: E501
    return float(binom.sf(found.targets - 1, found.targets + found.decoys, share))


def recovery(table: NullTable | Record, competition: Competition | Record, n: int) -> Recovery:
    """The three yardsticks on an attack's matches.

    Args:
        competition: above NCC 0.6.
        n: training images.
    """
    share = blend_share(n)
    matches = table.matches
    others = table.nulls[HELD_OUT]
    by_ssim = Competition(matches.ssim_04, others.ssim_04, 1.0, 1.0)
    by_ncc = Competition(matches.ncc_08, others.ncc_08, 1.0, 1.0)
    p, p_ssim, p_ncc = (preference(pair, share) for pair in (competition, by_ssim, by_ncc))
    return Recovery((p, p_ssim, p_ncc), share)


def in_words(
    table: NullTable | Record, competition: Competition | Record, n: int
) -> tuple[str, str]:
    """What was found, and the null, as a card has them."""
    found = recovery(table, competition, n)
    best = table.best_null
    names = table.best_null_name
    matches = table.matches
    others = table.nulls[HELD_OUT]
    return (
        f"{n} training images against as many held-out ones: SSIM above 0.4, {matches.ssim_04} :"
        f" {others.ssim_04}; NCC above 0.8, {matches.ncc_08} : {others.ncc_08}; NCC above 0.6, in"
        f" one competition, {competition.targets} : {competition.decoys}"
        f" (p = {found.p_values[0]:.1g})",
        f"best baseline: SSIM {null_text(best.ssim_04, names.ssim_04)}, NCC 0.8"
        f" {null_text(best.ncc_08, names.ncc_08)};"
        f" {found.share:.0%} of the best blend's matches were trained on",
    )
