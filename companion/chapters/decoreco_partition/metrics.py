"""What is measured of the start from other photographs."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.reference_common import Ended, ReferenceArm, ReferenceNet
from companion.chapters.tables import Attacked, MatchTable, Trained


@dataclass(frozen=True, kw_only=True)
class Search(MatchTable, Attacked, Ended):
    """Our attack from the other partition."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """The three searches: the reference recipe on the reference's network, ours on one in the KKT regime."""

    reference: ReferenceArm
    pixels: Search
    span: Search


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, MatchTable, Ended):
    """Our network, the matches of the reference recipe (at top level), its network, and every search.

    m: candidates of the reference recipe · ours: of our searches.
    """

    n_train: int
    m: int
    ours: int
    reference_net: ReferenceNet
    variants: Variants
