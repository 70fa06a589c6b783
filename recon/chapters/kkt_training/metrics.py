"""What chapter 5 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, kw_only=True)
class Observed:
    """After `step` steps: the smallest normalised margin, the residual of layer 1 with fitted multipliers relative to
    ‖θ₁‖, and the natural logarithm of the training loss."""

    step: int
    min_normalised_margin: float
    kkt_residual: float
    log_loss: float


@dataclass(frozen=True, kw_only=True)
class Run(Observed):
    """One method: how it ended, and what was observed on the way."""

    seconds: float
    observed: list[Observed]


@dataclass(frozen=True, kw_only=True)
class Decayed:
    """Regression with weight decay ω, stopped before it is stationary.

    grad_norm: ‖∇E‖ · kkt_residual: with multipliers fitted afterwards · implied_residual: with those that training
    implies · gradient_over_decay: ‖∇E‖ / (ω‖θ‖), equal to it · multiplier_error: ‖fitted − implied‖ / ‖implied‖.
    """

    weight_decay: float
    training_loss: float
    grad_norm: float
    iterations: int
    kkt_residual: float
    implied_residual: float
    gradient_over_decay: float
    multiplier_error: float


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Both methods from the same start.  steps_to_reference_loss: of loss-scaled descent, −1 if it never got there."""

    n_train: int
    width: int
    steps: int
    loss_scaled: Annotated[Run, Field(alias="loss-scaled")]
    gradient_descent: Annotated[Run, Field(alias="gradient-descent")]
    steps_to_reference_loss: int
    weight_decay: Decayed
