"""What chapter 6 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from companion.chapters.tables import Counts, MatchTable, Trained


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Training images with a candidate of their own, held-out images in their place (null), and what is above the best
    null (excess)."""

    matches: Counts
    null: Counts
    excess: Counts


@dataclass(frozen=True, kw_only=True)
class Timed(Counted):
    """The same, and how long it took."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Simpler:
    """Separation by simpler means: scikit-learn's FastICA as it comes; our contrast in all directions at once."""

    fast_ica: Annotated[Timed, Field(alias="FastICA")]
    one_stage: Annotated[Counted, Field(alias="one stage")]

    def rows(self) -> dict[str, Counted]:
        """Both by name."""
        return {"FastICA": self.fast_ica, "one stage": self.one_stage}


@dataclass(frozen=True, kw_only=True)
class Refined:
    """With DecoReco: begun at the separated images, which took `seconds`; from noise; and what its candidates span,
    separated in turn."""

    seconds: float
    separated_then_decoreco: Annotated[Counted, Field(alias="separated, then DecoReco")]
    decoreco: Annotated[Counted, Field(alias="DecoReco")]
    decoreco_then_separated: Annotated[Counted, Field(alias="DecoReco, then separated")]

    def rows(self) -> dict[str, Counted]:
        """All three by name."""
        return {
            "separated, then DecoReco": self.separated_then_decoreco,
            "DecoReco, a short run": self.decoreco,
            "DecoReco, then separated": self.decoreco_then_separated,
        }


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """How good the adversary's probabilities are, see `recon.scoring.certainty.assessed`; None where it is not defined.

    reliability: per bin of probability its mean, the share that is true, and the number.
    """

    auc: float | None
    tpr_at_1pct_fpr: float | None
    precision_top50: float | None
    sure: int
    precision_sure: float | None
    recall_sure: float
    brier: float | None
    candidates: int
    true: int
    reliability: list[tuple[float, float, int]]


@dataclass(frozen=True, kw_only=True)
class Single:
    """AUC of each kind of evidence alone; gates: agreement with the network's own."""

    sparsity: float | None
    stability: float | None
    share: float | None
    gates: float | None


@dataclass(frozen=True, kw_only=True)
class Certainty(Assessed):
    """Pooled over all networks that were assessed, and of each by name; shadows: images in the adversary's own."""

    networks: dict[str, Assessed]
    single: Single
    shadows: list[int]


@dataclass(frozen=True, kw_only=True)
class Metrics(Trained, MatchTable):
    """The network, what separation finds in it, and how sure the adversary can be.

    rank: directions searched · restarts_agree: mean stability · span_null: the larger of mixtures of the searched span
    and of the training images.
    """

    n_train: int
    width: int
    recon_seconds: float
    rank: int
    restarts_agree: float
    span_null: Counts
    simpler: Simpler
    refined: Refined
    certainty: Certainty
