"""What chapter 18 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from recon.chapters.leakage_common import LEAST, Ratio
from recon.scoring.nulls import NullTable


@dataclass(frozen=True, kw_only=True)
class Activations:
    """One network: mean squared errors of each image by activation; R-GAP cannot invert ReLU."""

    rgap: dict[str, list[float]]
    matching: dict[str, list[float]]

    def ratio(self, method: str) -> Ratio:
        """Error with LeakyReLU over that with Tanh, rounding apart."""
        leaky, tanh = (np.array(getattr(self, method)[name]) for name in ("leaky_relu", "tanh"))
        return Ratio.of(np.log10(np.maximum(leaky, LEAST)) - np.log10(np.maximum(tanh, LEAST)))

    def exact(self, method: str) -> bool:
        """Whether the error is rounding with either."""
        return max(max(getattr(self, method)[name]) for name in ("leaky_relu", "tanh")) <= LEAST

    def typical(self, activation: str, method: str) -> float:
        """Geometric mean of the errors, rounding apart."""
        return float(np.exp(np.log(np.maximum(getattr(self, method)[activation], LEAST)).mean()))

    def rows(self) -> dict[str, float]:
        """Geometric means by name, as they are shown."""
        return {
            f"{name}, {label}": self.typical(name, method)
            for method, label in (("rgap", "R-GAP"), ("matching", "matching"))
            for name in getattr(self, method)
        }


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A step of training: NCC of what one image's gradient gives away, in both precisions, and the logarithmic loss."""

    step: int
    gradient_ncc_32: float
    gradient_ncc_64: float
    log_loss: float


@dataclass(frozen=True, kw_only=True)
class WeightsAttacked(NullTable):
    """The weights of a step attacked: training images above NCC 0.6, held-out ones in their place (null_…), mean NCC
    of both, and the largest mean NCC of a null, with its name."""

    step: int
    above_06: Annotated[int, Field(alias="above_0.6")]
    null_above_06: Annotated[int, Field(alias="null_above_0.6")]
    ncc: float
    null_ncc: float
    best_null_ncc: float
    best_null_ncc_name: str


@dataclass(frozen=True, kw_only=True)
class ReadOut:
    """NCC of the images shown: means of the gradients', and each of the weights'."""

    gradient_untrained: Annotated[float, Field(alias="gradient, untrained")]
    gradient_trained: Annotated[float, Field(alias="gradient, trained")]
    weights: list[float]


@dataclass(frozen=True, kw_only=True)
class ThreatModels:
    """One network, one training set of n_train images, stage by stage of its training: gradients and weights."""

    n_train: int
    stages: list[Stage]
    weights: list[WeightsAttacked]
    ncc: ReadOut


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Two questions.  activations: by network · grey: error of a grey image, for each of its images."""

    activations: dict[str, Activations]
    grey: list[float]
    threat_models: ThreatModels
