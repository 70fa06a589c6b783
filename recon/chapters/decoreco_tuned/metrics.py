"""What chapter 9 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from recon.chapters.reference_common import ReferenceArm, ReferenceNet
from recon.chapters.tables import Attacked, Compared, Counts, MatchTable, Names, NullTable, Trained


@dataclass(frozen=True, kw_only=True)
class FewerCounts:
    """What was counted before 0.7 and 0.8 were: in the kept run at the paper's size."""

    ncc_05: Annotated[int, Field(alias="ncc_0.5")]
    ncc_06: Annotated[int, Field(alias="ncc_0.6")]
    ncc_channel_06: Annotated[int, Field(alias="ncc_channel_0.6")]
    ssim_04: Annotated[int, Field(alias="ssim_0.4")]


AnyCounts = Annotated[Counts | FewerCounts, Field(union_mode="left_to_right")]


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
class FromTruth:
    """The same search begun at the training images, as many candidates as images: of layer 1, the energy where it
    ends, and where the search from noise does · matches: with the training images, and the best null."""

    energy: float
    energy_from_noise: float
    matches: Counts
    best_null: Counts

    @property
    def passed(self) -> bool:
        """Whether the search from noise ends below."""
        return self.energy_from_noise < self.energy


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, Attacked, Compared):
    """The network, the attack, and its matches: the fields of `recon.chapters.tables.MatchTable`, of which the kept run
    at the paper's size has no nulls.

    m: candidates · shown: Figs. 6 to 8; None in a run that was made before their ranks were understood · from_truth:
    None in a run that did not search from there.
    """

    n_train: int
    m: int
    matches: AnyCounts
    null: AnyCounts
    nulls: dict[str, Counts] | None = None
    best_null: Counts | None = None
    best_null_name: Names | None = None
    excess: Counts | None = None
    shown: ShownRanks | None = None
    from_truth: FromTruth | None = None

    def null_table(self) -> NullTable | None:
        """Matches with all nulls; None where these were not measured."""
        nulls, best, names, excess = self.nulls, self.best_null, self.best_null_name, self.excess
        if isinstance(self.matches, FewerCounts) or nulls is None or best is None or names is None or excess is None:
            return None
        return NullTable(matches=self.matches, nulls=nulls, best_null=best, best_null_name=names, excess=excess)


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


@dataclass(frozen=True, kw_only=True)
class SizeRow(Trained, Attacked, MatchTable):
    """One network, trained on n_train images, and the same attack on it.

    train_steps, attack_steps: in proportion to n_train · truth_share: of ‖θ_1‖², what the training images leave, with
    the attack's smoothing and the λ ≥ 0 that fit layer 1 best.
    """

    n_train: int
    train_steps: int
    attack_steps: int
    truth_share: float


@dataclass(frozen=True, kw_only=True)
class SizeMetrics:
    """One row a number of images, fewest first; n_train: the most."""

    n_train: int
    sizes: list[SizeRow]
