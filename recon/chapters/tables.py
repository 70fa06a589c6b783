"""Tables that chapters share, as typed metrics: their fields, or the aliases of those, are keys of `result.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from recon.scoring.matching import Competition

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ByYardstick(Generic[T]):
    """One value for each of our yardsticks: NCC above 0.5 to 0.8, NCC per channel above 0.6, SSIM above 0.4."""

    ncc_05: Annotated[T, Field(alias="ncc_0.5")]
    ncc_06: Annotated[T, Field(alias="ncc_0.6")]
    ncc_07: Annotated[T, Field(alias="ncc_0.7")]
    ncc_08: Annotated[T, Field(alias="ncc_0.8")]
    ncc_channel_06: Annotated[T, Field(alias="ncc_channel_0.6")]
    ssim_04: Annotated[T, Field(alias="ssim_0.4")]


Counts = ByYardstick[int]
Names = ByYardstick[str]


@dataclass(frozen=True, kw_only=True)
class NullTable:
    """Matches of an attack, and what scores without one; see `recon.scoring.nulls.null_table`.

    matches: training images with a candidate of their own · nulls: the same of each set that cost nothing, and under
    "held_out" held-out images with one · best_null, best_null_name: the largest of these, and whose that is · excess:
    matches minus best_null.
    """

    matches: Counts
    nulls: dict[str, Counts]
    best_null: Counts
    best_null_name: Names
    excess: Counts


@dataclass(frozen=True, kw_only=True)
class Competitions:
    """Candidates offered to training and held-out images at once, at three thresholds of NCC."""

    ncc_05: Annotated[Competition, Field(alias="ncc_0.5")]
    ncc_06: Annotated[Competition, Field(alias="ncc_0.6")]
    ncc_07: Annotated[Competition, Field(alias="ncc_0.7")]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Training images beside held-out ones (null_…) in their place.

    top10_ncc: mean of the ten best one-to-one correlations · per_image: images whose best candidate, shared or not, is
    above NCC 0.6 (the reference's direction) · per_candidate: candidates whose best image is.
    """

    top10_ncc: float
    null_top10_ncc: float
    per_image_ncc_06: Annotated[int, Field(alias="per_image_ncc_0.6")]
    null_per_image_ncc_06: Annotated[int, Field(alias="null_per_image_ncc_0.6")]
    per_candidate_ncc_06: Annotated[int, Field(alias="per_candidate_ncc_0.6")]
    null_per_candidate_ncc_06: Annotated[int, Field(alias="null_per_candidate_ncc_0.6")]
    competition: Competitions


@dataclass(frozen=True, kw_only=True)
class MatchTable(NullTable, Compared):
    """All that is counted of an attack's candidates.  null: held-out images with a candidate of their own."""

    null: Counts


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A network trained into the KKT regime, and its certificate.

    log_loss: natural logarithm of the training loss · min_normalised_margin: the smallest · kkt_residual: of layer 1,
    relative to ‖θ₁‖, and kkt_residual_by_layer · theta_norm: ‖θ*‖.
    """

    train_seconds: float
    log_loss: float
    min_normalised_margin: float
    kkt_residual: float
    kkt_residual_by_layer: list[float]
    theta_norm: float


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """What the adversary can say of an attack by `recon.attacks.recover`.

    energy: of every restart · energy_by_layer: of the best one · multiplier_scale: the one they chose ·
    searched_dimensions: of the space that was searched.
    """

    recon_seconds: float
    energy: list[float]
    energy_by_layer: list[float]
    multiplier_scale: float
    searched_dimensions: int


@dataclass(frozen=True, kw_only=True)
class ByReference:
    """What the reference recipe ends at: energy (one run), and by layer; and the step size that was chosen."""

    energy: list[float]
    energy_by_layer: list[float]
    step_size: float


NULL_NAMES = {
    "span": "mixtures of the searched span",
    "mixtures": "mixtures of the training images",
    "rows": "rows of ±W1",
    "directions": "singular directions",
    "means": "mean images",
    "held_out": "held-out images",
}


def null_text(count: int, name: str) -> str:
    """A null in words: "14 (mixtures of the training images)"."""
    return f"{count} ({NULL_NAMES[name]})"


def best_text(table: NullTable) -> str:
    """The best null at NCC 0.6 in words."""
    return null_text(table.best_null.ncc_06, table.best_null_name.ncc_06)


def labelled(values: ByYardstick[T]) -> dict[str, T]:
    """Yardstick in words -> value, as a table on a page has it."""
    return {
        "NCC > 0.5": values.ncc_05,
        "NCC > 0.6": values.ncc_06,
        "NCC > 0.7": values.ncc_07,
        "NCC > 0.8": values.ncc_08,
        "NCC per channel > 0.6": values.ncc_channel_06,
        "SSIM > 0.4": values.ssim_04,
    }


def flat(table: Any) -> dict[str, Any]:
    """Field -> value of a table, to build a larger one that inherits from its type."""
    return {each.name: getattr(table, each.name) for each in fields(table)}


def by_yardstick(values: Mapping[str, T]) -> ByYardstick[T]:
    """From yardstick -> value, as the keys of `result.json` name them."""
    return ByYardstick(
        ncc_05=values["ncc_0.5"],
        ncc_06=values["ncc_0.6"],
        ncc_07=values["ncc_0.7"],
        ncc_08=values["ncc_0.8"],
        ncc_channel_06=values["ncc_channel_0.6"],
        ssim_04=values["ssim_0.4"],
    )


def typed_null_table(found: Mapping[str, Any]) -> NullTable:  # TRANSITION: until `null_table` itself is typed
    """`recon.scoring.nulls.null_table` as a `NullTable`."""
    return NullTable(
        matches=by_yardstick(found["matches"]),
        nulls={name: by_yardstick(counts) for name, counts in found["nulls"].items()},
        best_null=by_yardstick(found["best_null"]),
        best_null_name=by_yardstick(found["best_null_name"]),
        excess=by_yardstick(found["excess"]),
    )
