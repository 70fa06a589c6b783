"""What chapter 9 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from recon.chapters.tables import Attacked, Compared, Counts, MatchTable, Names, NullTable, Trained


@dataclass(frozen=True, kw_only=True)
class FewerCounts:
    """What was counted before 0.7 and 0.8 were: in the kept run at the paper's size."""

    ncc_05: Annotated[int, Field(alias="ncc_0.5")]
    ncc_06: Annotated[int, Field(alias="ncc_0.6")]
    ncc_channel_06: Annotated[int, Field(alias="ncc_channel_0.6")]
    ssim_04: Annotated[int, Field(alias="ssim_0.4")]


AnyCounts = Annotated[Counts | FewerCounts, Field(union_mode="left_to_right")]


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, Attacked, Compared):
    """The network, the attack, and its matches: the fields of `recon.chapters.tables.MatchTable`, of which the kept run
    at the paper's size has no nulls.

    m: candidates · top40_rank_1, top40_rank_at_most_10: of the `top40_shown` that contribute most, those whose nearest
    training image is the nearest, or among the ten nearest, of all images of the pool; null_: of held-out ones.
    """

    n_train: int
    m: int
    matches: AnyCounts
    null: AnyCounts
    nulls: dict[str, Counts] | None = None
    best_null: Counts | None = None
    best_null_name: Names | None = None
    excess: Counts | None = None
    top40_rank_1: int
    top40_rank_at_most_10: int
    null_top40_rank_at_most_10: int
    top40_shown: int

    def null_table(self) -> NullTable | None:
        """Matches with all nulls; None where these were not measured."""
        nulls, best, names, excess = self.nulls, self.best_null, self.best_null_name, self.excess
        if isinstance(self.matches, FewerCounts) or nulls is None or best is None or names is None or excess is None:
            return None
        return NullTable(matches=self.matches, nulls=nulls, best_null=best, best_null_name=names, excess=excess)


@dataclass(frozen=True, kw_only=True)
class SizeRow(Trained, Attacked, MatchTable):
    """One network, trained on n_train images, and the same attack on it."""

    n_train: int


@dataclass(frozen=True, kw_only=True)
class SizeMetrics:
    """One row a number of images, fewest first; n_train: the most."""

    n_train: int
    sizes: list[SizeRow]
