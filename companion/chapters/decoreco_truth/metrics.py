"""What chapter 5 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from companion.chapters.tables import Counts, Names, Trained

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ByStart(Generic[T]):
    """One value for n images each: the training images, those of the partition, noise."""

    truth: T
    partition: T
    random: T

    def named(self) -> dict[str, T]:
        """The three by name."""
        return {"truth": self.truth, "partition": self.partition, "random": self.random}


@dataclass(frozen=True, kw_only=True)
class EnergiesAfter:
    """Of what the attack makes of each start; and of its usual run from noise, with twice as many candidates."""

    truth: float
    partition: float
    random: float
    random_twice: Annotated[float, Field(alias="random, 2n candidates")]

    def named(self) -> dict[str, float]:
        """The three by name."""
        return {"truth": self.truth, "partition": self.partition, "random": self.random}


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained):
    """Energies are the share of layer 1 left unexplained with fitted multipliers, relative to ‖θ₁‖²: of the images as
    they are, and after the attack from them · converged: whether the attack's own energy had, as
    `companion.chapters.common.FALL` has it; None in a run made before this was measured.  The rest are the fields of
    `companion.chapters.tables.MatchTable`."""

    n_train: int
    energy_fitted: ByStart[float]
    energy_after_attack: EnergiesAfter
    matches_after_attack: ByStart[Counts]
    null_after_attack: ByStart[Counts]
    nulls_after_attack: ByStart[dict[str, Counts]]
    best_null_after_attack: ByStart[Counts]
    best_null_name_after_attack: ByStart[Names]
    excess_after_attack: ByStart[Counts]
    converged: ByStart[bool] | None = None
