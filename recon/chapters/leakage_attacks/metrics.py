"""What chapter 15 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from recon.chapters.leakage_common import Spread


@dataclass(frozen=True, kw_only=True)
class Error:
    """Of one image: mean squared error, pixels in [0, 1], and PSNR with peak 255 as published."""

    mse: float
    psnr_255: float


@dataclass(frozen=True, kw_only=True)
class Scores:
    """One method on one network: means over the images, None where not finite; PSNR also with peak 1.

    diverged: whether the mean error is beyond `recon.chapters.published.DIVERGED` · per_image: by CIFAR-10 index.
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
