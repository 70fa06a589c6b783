"""What chapter 12 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from recon.chapters.tables import NullTable

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class MeanSd:
    """Mean and standard deviation over networks, and so over images; sd 0 of a single network."""

    mean: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class Judged(Generic[T]):
    """How well one kind of evidence tells true from false: area under the ROC curve, average precision, and precision
    among the 10, 20 and 40 best."""

    auc: T
    average_precision: T
    precision_at_10: T
    precision_at_20: T
    precision_at_40: T


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """networks: that gave both true and false reconstructions · share_true: of all candidates · null_share_true: of as
    many that cost nothing, by null; best_null_name: of which it is largest · counts: one table a network · evidence: by
    kind, and "combined"; empty where no network can be judged."""

    n_train: int
    width: int
    networks: int
    share_true: MeanSd
    null_share_true: dict[str, MeanSd]
    best_null_name: str
    counts: list[NullTable]
    evidence: dict[str, Judged[MeanSd]]
