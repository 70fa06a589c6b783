"""Were training images recovered? The book's one rule, in three yardsticks, each a competition of
training with as many held-out images.

A raw count condemns nobody and acquits nobody. Above NCC 0.6 blends of photographs match a fifth of
500 training images. By SSIM a thousand other photographs, as they are, match up to 25, and by NCC
above 0.8 up to nine. But what knows nothing of the training set matches as many held-out images. So
a verdict asks whether of the images that an attack matches more were trained on than of those that
the best blend matches (exact binomial test, p < 0.01); a share, so that chance matches dilute it
and cannot raise it:

    preference   above NCC 0.6, both sets in one assignment
    SSIM > 0.4   the yardstick of Haim et al. (2022) and Buzaglo et al. (2023), each set by itself
    NCC > 0.8    each set by itself

Up to `FEW` images, where blends themselves show a preference, since each holds a large part of one
image, counts over their best null stand in the place of all three.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scipy.stats import binom

from companion.chapters.tables import null_text
from companion.store.record import Record
from companion.store.results import orders_below
from recon.scoring.matching import Competition
from recon.scoring.nulls import HELD_OUT, NullTable, clears, margin

FEW, LEVEL = 50, 0.01
BLENDS = Path(__file__).parents[2] / "benchmarks" / "blends.json"


@dataclass(frozen=True)
class Recovery:
    """What each yardstick says of an attack:

    Attributes:
        by_preference (up to `FEW` images by the count above 0.6), by_ssim, by_ncc.
        p_value: of the preference.
        share: of the best blend's matches that were trained on.
        margin: orders of magnitude by which p_value is below `LEVEL`; up to `FEW` images, those
            above NCC 0.6 beyond what it takes.
    """

    by_preference: bool
    by_ssim: bool
    by_ncc: bool
    p_value: float
    share: float
    margin: float

    @property
    def shown(self) -> bool:
        """The preference, and one of the other two: images were recovered."""
        return self.by_preference and (self.by_ssim or self.by_ncc)

    @property
    def excluded(self) -> bool:
        """None of the three: nothing was."""
        return not (self.by_preference or self.by_ssim or self.by_ncc)

    @property
    def verdict(self) -> str:
        """Of a sentence that says that images are recovered."""
        return "reproduced" if self.shown else "not reproduced" if self.excluded else "partly"


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


def preference(trained: int, held_out: int, share: float) -> float:
    """Probability that of as many matches so many or more are training images, if each is one with
    probability `share`.

    >>> round(preference(11, 1, 0.5), 4), preference(0, 0, 0.5)
    (0.0032, 1.0)
    """
    return float(binom.sf(trained - 1, trained + held_out, share))


def recovery(table: NullTable | Record, competition: Competition | Record, n: int) -> Recovery:
    """The three yardsticks on an attack's matches.

    Args:
        competition: above NCC 0.6.
        n: training images.
    """
    share, matches, best = blend_share(n), table.matches, table.best_null
    others = table.nulls[HELD_OUT]
    p_value = preference(competition.targets, competition.decoys, share)
    few = (
        clears(matches.ncc_06, best.ncc_06),
        clears(matches.ssim_04, best.ssim_04),
        clears(matches.ncc_08, best.ncc_08),
    )
    many = (
        p_value,
        preference(matches.ssim_04, others.ssim_04, share),
        preference(matches.ncc_08, others.ncc_08, share),
    )
    by_preference, by_ssim, by_ncc = few if n <= FEW else (p < LEVEL for p in many)
    return Recovery(
        by_preference,
        by_ssim,
        by_ncc,
        p_value=p_value,
        share=share,
        margin=(margin(matches.ncc_06, best.ncc_06) if n <= FEW else orders_below(p_value, LEVEL)),
    )


def in_words(
    table: NullTable | Record, competition: Competition | Record, n: int
) -> tuple[str, str]:
    """What was found, and the null, as a card has them."""
    found, best, names = recovery(table, competition, n), table.best_null, table.best_null_name
    others = table.nulls[HELD_OUT]
    ours = (
        f"of {n} training images against as many held-out ones SSIM above 0.4:"
        f" {table.matches.ssim_04} : {others.ssim_04}; NCC above 0.8: {table.matches.ncc_08} :"
        f" {others.ncc_08}; "
    )
    null = (
        f"best null: SSIM {null_text(best.ssim_04, names.ssim_04)},"
        f" NCC 0.8 {null_text(best.ncc_08, names.ncc_08)}"
    )
    if n <= FEW:
        return (
            ours + f"NCC above 0.6: {table.matches.ncc_06}",
            f"{null}, NCC 0.6 {best.ncc_06} ({names.ncc_06})",
        )
    pair = f"{competition.targets} : {competition.decoys}"
    return (
        ours + f"NCC above 0.6, in one competition: {pair} (p = {found.p_value:.1g})",
        f"{null}; of what the best blend matches {found.share:.0%} were trained on",
    )
