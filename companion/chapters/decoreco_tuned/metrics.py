"""What the published recipe's run from its tuned start measures."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.reference_common import ReferenceArm, ReferenceNet
from companion.chapters.tables import Counts


@dataclass(frozen=True)
class MostSimilar:
    """The paper's order: natural-looking reconstructions by SSIM with the nearest training image, the first `top`.

    true: of these, more like it than chance and blends explain · held_out_true: the same on average with images that
    nobody trained on · p_value: share of the lists of such images with as many.
    """

    top: int
    true: int
    held_out_true: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class ShownRanks:
    """The natural-looking reconstructions that contribute most, in that order, in the list of all `reconstructions` by
    similarity to the nearest training image.

    natural: of all, how many look so · rank, rank_ssim: in the list by NCC, by SSIM, 1 is the most similar · ncc: to
    the nearest training image · true: more like it than chance explains · held_out_rank: median rank in the lists made
    with images that nobody trained on · count: how many are true; high: how many rank among the first ten; held_out_:
    the same on average with such images · p_value: share of those lists with as many true · top40_true: of the `top40`
    that contribute most, with held-out images held_out_top40_true · blends: NCC that 1 % of the blends exceed, or the
    least that any reconstruction has to, if that is more · similar: in the paper's order; None in runs before it.
    """

    reconstructions: int
    natural: int
    rank: list[int]
    rank_ssim: list[int]
    ncc: list[float]
    true: list[bool]
    held_out_rank: list[float]
    count: int
    high: int
    held_out_count: float
    held_out_high: float
    p_value: float
    top40: int
    top40_true: int
    held_out_top40_true: float
    blends: float
    similar: MostSimilar | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedMetrics:
    """The published recipe from the tuned scale of its start: the network that it attacks, how far it came and what it
    matched, and Figs. 6 to 8 of its m results."""

    n_train: int
    m: int
    net: ReferenceNet
    arm: ReferenceArm
    shown: ShownRanks

    @property
    def nulls(self) -> dict[str, Counts]:
        """Those of `arm`."""
        return self.arm.nulls
