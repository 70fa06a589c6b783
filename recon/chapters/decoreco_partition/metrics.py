"""What chapter 10 measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.tables import Attacked, ByReference, MatchTable, Trained


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Where results ended: nearest, by NCC, to which set; and how many crossed over to a training image.

    "Crossed over" (moved): nearer to a training image than to any start, and above 0.6.  nulls_moved: as many cross so
    of candidates that cost nothing, and of the results to held-out images; best_null_moved, best_null_moved_name: the
    most, and whose that is · ncc_to: mean NCC to the nearest of a set.
    """

    nearest_is_own_start: int
    nearest_is_start_partition: int
    moved_to_training: int
    moved_to_held_out: int
    nulls_moved: dict[str, int]
    best_null_moved: int
    best_null_moved_name: str
    ncc_to_start_partition: float
    ncc_to_training: float
    ncc_to_held_out: float


@dataclass(frozen=True, kw_only=True)
class ReferenceSearch(MatchTable, ByReference, Ended):
    """The reference recipe from the other partition."""


@dataclass(frozen=True, kw_only=True)
class Search(MatchTable, Attacked, Ended):
    """Our attack from the other partition."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """The three searches."""

    reference: ReferenceSearch
    pixels: Search
    span: Search


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, ReferenceSearch):
    """The network, the reference recipe on it (at top level), and every search.  m: candidates."""

    n_train: int
    m: int
    variants: Variants
