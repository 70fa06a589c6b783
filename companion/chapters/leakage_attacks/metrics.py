"""What chapter 11 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from companion.chapters.leakage_common import LEAST, Ratio, Spread
from companion.chapters.published import DIVERGED


@dataclass(frozen=True, kw_only=True)
class Error:
    """Of one image: mean squared error, pixels in [0, 1], and PSNR with peak 255 as published."""

    mse: float
    psnr_255: float


@dataclass(frozen=True, kw_only=True)
class Scores:
    """One method on one network: means over the images, None where not finite; PSNR also with peak 1.

    diverged: whether the mean error is beyond `companion.chapters.published.DIVERGED` · per_image: by CIFAR-10 index.
    """

    mse: float | None
    psnr_255: float | None
    psnr_1: float | None
    diverged: bool
    per_image: dict[str, Error | None]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PreTraining:
    """Of a pre-trained network: epochs, images, and its accuracy on these."""

    epochs: int
    n_train: int
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Attacks(Spread):
    """One network: methods by name, and its pre-training where it had one."""

    rows_field: ClassVar[str] = "methods"

    methods: dict[str, Scores]
    pre_training: PreTraining | None = None


@dataclass(frozen=True, kw_only=True)
class Images:
    """The victims: error of a grey image, CIFAR-10 indices, labels, and whether they are the paper's."""

    grey_mse: float
    index: list[int]
    labels: list[int]
    the_papers: bool


@dataclass(frozen=True, kw_only=True)
class Metrics(Spread):
    """networks: by name · share_of_published_steps: of Hybrid and CosineTV."""

    rows_field: ClassVar[str] = "networks"

    networks: dict[str, Attacks]
    images: Images
    share_of_published_steps: float

    def mse(self, name: str, method: str) -> float | None:
        """Mean squared error, None if it is not finite; KeyError where the method did not run."""
        return self.networks[name].methods[method].mse


@dataclass(frozen=True, kw_only=True)
class Run:
    """One attack on one network: mean squared error of each image, pixels in [0, 1], None where not finite."""

    mse: list[float | None]
    seconds: float

    @property
    def logs(self) -> np.ndarray:
        """log10 of the errors, no less than 1e-12 and no more than `DIVERGED`, (images,)."""
        return np.log10([min(max(DIVERGED if error is None else error, LEAST), DIVERGED) for error in self.mse])

    @property
    def typical(self) -> float:
        """Geometric mean of the errors."""
        return float(10 ** self.logs.mean())


@dataclass(frozen=True, kw_only=True)
class MatchedNetwork:
    """c: the security metric · joint: rank of all layers together minus unknowns, at the first image · unread: entries
    of the image that no equation reads · methods: by name · tv: CosineTV as its authors run it, by weight of the total
    variation · starts: the same, by start."""

    c: int
    joint: int
    unread: int
    methods: dict[str, Run]
    tv: dict[str, Run]
    starts: list[Run]

    @property
    def missing(self) -> int:
        """joint, without the entries that are not read."""
        return self.joint + self.unread


@dataclass(frozen=True, kw_only=True)
class MatchingMetrics(Spread):
    """networks: by name · index: of the images in CIFAR-10 · grey: error of a grey image, for each of them ·
    cosine_steps: of CosineTV · hybrid_share: of Hybrid's published steps."""

    rows_field: ClassVar[str] = "networks"

    networks: dict[str, MatchedNetwork]
    index: list[int]
    grey: list[float]
    cosine_steps: int
    hybrid_share: float

    @property
    def open(self) -> list[str]:
        """Networks whose gradient leaves something open that they read."""
        return [name for name, row in self.networks.items() if row.missing < 0]

    def ratio(self, method: str, other: str, names: list[str] | None = None) -> Ratio:
        """Error of one method over that of another: geometric mean over networks (by name, default all) and images."""
        rows = [self.networks[name] for name in names or self.networks]
        differences = [row.methods[method].logs - row.methods[other].logs for row in rows]
        return Ratio.of(np.mean(differences, axis=0))
