"""What chapter 18 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from recon.scoring.nulls import NullTable


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Mean squared error by activation and attack; R-GAP cannot invert ReLU."""

    tanh_rgap: Annotated[float, Field(alias="tanh, R-GAP")]
    tanh_matching: Annotated[float, Field(alias="tanh, matching")]
    leaky_relu_rgap: Annotated[float, Field(alias="leaky_relu, R-GAP")]
    leaky_relu_matching: Annotated[float, Field(alias="leaky_relu, matching")]
    relu_matching: Annotated[float, Field(alias="relu, matching")]

    def rows(self) -> dict[str, float]:
        """By name, as they are shown."""
        return {
            "tanh, R-GAP": self.tanh_rgap,
            "tanh, matching": self.tanh_matching,
            "leaky_relu, R-GAP": self.leaky_relu_rgap,
            "leaky_relu, matching": self.leaky_relu_matching,
            "relu, matching": self.relu_matching,
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
    """Two questions.  network: of the first."""

    network: str
    activations: Activations
    threat_models: ThreatModels
