"""What chapter 7 measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Number:
    """Mean over networks, central 95 % of the bootstrap over images and networks, and each network's; None where it is
    not defined."""

    mean: float | None
    low: float | None
    high: float | None
    values: list[float | None]

    def __str__(self) -> str:
        if self.mean is None:
            return "not defined"
        return f"{self.mean:.2f}" if self.low is None or self.high is None else f"{self.mean:.2f} " + self.interval

    @property
    def interval(self) -> str:
        """The interval in brackets."""
        return f"[{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How well one kind of evidence tells true from false, see `discrimination`: area under the ROC curve; the same
    without doubtful candidates and negatives; the same if a negative counts as true; share of the true accepted with at
    most 1 % of the false; share of true ones among the 20 most trusted; rank correlation with the NCC to the nearest
    training image."""

    auc: Number
    auc_clear: Number
    auc_either: Number
    tpr_at_1pct_fpr: Number
    precision_at_20: Number
    rank_correlation: Number


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The null: what random scores have on average."""

    auc: float
    tpr_at_1pct_fpr: float | None
    precision_at_20: float | None
    rank_correlation: float


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some candidates of all networks together: how many there are, true, negatives of training images (not true, NCC
    below −`TRUE_NCC`), doubtful (neither, but |NCC| above `DOUBTFUL`) and false beyond doubt · networks: with true and
    other ones · share_true: of a network's · attainable: share of true ones among the 20 most trusted if they knew all,
    less than 1 where a network has fewer true ones · guess: the null · evidence: by kind, none where no network has
    true and other candidates."""

    candidates: int
    true: int
    negative: int
    doubtful: int
    false: int
    networks: int
    share_true: Number
    attainable: float | None
    guess: Guess
    evidence: dict[str, Judged]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One attack on networks of n_train images each: all its candidates, and those that look natural."""

    n_train: int
    every: Group
    natural: Group


@dataclass(frozen=True, kw_only=True)
class Free:
    """Of as many candidates as DecoReco has, made without an attack: shares that count as true, and look natural."""

    true: float
    natural: float


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """arms: "decoreco", "separated", and "more", separated from networks of more_n images · photographs: how many set
    the range of "looks natural", and photographs_natural: the share of other photographs within it · others: images
    that nobody trained on, to which a true candidate is less alike · kkt_residual: of layer 1 of every network of
    n_train images · free: by null."""

    n_train: int
    more_n: int
    width: int
    networks: int
    photographs: int
    photographs_natural: float
    others: int
    kkt_residual: list[float]
    free: dict[str, Free]
    arms: dict[str, Arm]
