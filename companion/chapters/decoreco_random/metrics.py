"""What is measured of the start from noise, and of three starts with few images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from companion.chapters.reference_common import ReferenceArm, ReferenceNet
from companion.chapters.tables import Attacked, MatchTable, Trained


@dataclass(frozen=True, kw_only=True)
class Search(MatchTable, Attacked):
    """Matches of our attack, and what the adversary can say of it."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """The searches.  The reference recipe works on the reference's network; ours on one trained on to the KKT regime,
    and once (span_reference_net) on the reference's.  pixels_then_span: the results in pixels, projected afterwards."""

    reference: ReferenceArm
    reference_tuned_scale: Annotated[ReferenceArm | None, Field(alias="reference, tuned scale")]
    pixels: Search
    span: Search
    pixels_then_span: Annotated[MatchTable, Field(alias="pixels then span")]
    span_reference_net: Annotated[Search, Field(alias="span, reference net")]

    def named(self) -> dict[str, MatchTable]:
        """All that were run, as the page calls them."""
        found: dict[str, MatchTable | None] = {
            "reference": self.reference,
            "reference, tuned scale": self.reference_tuned_scale,
            "span, reference net": self.span_reference_net,
            "pixels": self.pixels,
            "pixels then span": self.pixels_then_span,
            "span": self.span,
        }
        return {name: table for name, table in found.items() if table is not None}


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, MatchTable):
    """Our network, the matches of the reference recipe (at top level), its network, every search.  m: candidates."""

    n_train: int
    m: int
    reference_net: ReferenceNet
    variants: Variants


@dataclass(frozen=True, kw_only=True)
class ReferenceMetrics:
    """The network that the recipe attacks, and a row for each start (and precision)."""

    n_train: int
    net: ReferenceNet
    arms: list[ReferenceArm]

    def arm(self, start: str, precision: str = "float32") -> ReferenceArm:
        """The row of this start; KeyError where it was not run."""
        found = [arm for arm in self.arms if (arm.start, arm.precision) == (start, precision)]
        if not found:
            raise KeyError(f"the recipe was not run from '{start}' with products in {precision}")
        return found[0]
