"""What chapter 8 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from recon.chapters.tables import Attacked, ByReference, MatchTable, Trained


@dataclass(frozen=True, kw_only=True)
class ReferenceSearch(MatchTable, ByReference):
    """Matches of the reference recipe, and where its energy ended."""


@dataclass(frozen=True, kw_only=True)
class Search(MatchTable, Attacked):
    """Matches of our attack, and what the adversary can say of it."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """The searches.  pixels_then_span: the results in pixels, projected afterwards."""

    reference: ReferenceSearch
    reference_tuned_scale: Annotated[ReferenceSearch, Field(alias="reference, tuned scale")]
    pixels: Search
    span: Search
    pixels_then_span: Annotated[MatchTable, Field(alias="pixels then span")]

    def named(self) -> dict[str, MatchTable]:
        """All of them, as the page calls them."""
        return {
            "reference": self.reference,
            "reference, tuned scale": self.reference_tuned_scale,
            "pixels": self.pixels,
            "span": self.span,
            "pixels then span": self.pixels_then_span,
        }


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, ReferenceSearch):
    """The network, the reference recipe on it (at top level), and every search.  m: candidates."""

    n_train: int
    m: int
    variants: Variants
