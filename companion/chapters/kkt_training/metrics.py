"""What appendix A measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, kw_only=True)
class Observed:
    """After `step` steps: the smallest normalised margin and the natural logarithm of the training loss; what the
    training images leave of layer 1, relative to ‖θ₁‖, with fitted multipliers: with the hard step as ReLU′
    (kkt_residual), and with the sigmoid of slope α by which the attack smooths it (kkt_residual_smoothed) ·
    layer_norms: ‖θ_l‖² of the three layers."""

    step: int
    min_normalised_margin: float
    kkt_residual: float
    kkt_residual_smoothed: float
    log_loss: float
    layer_norms: list[float]


@dataclass(frozen=True, kw_only=True)
class Run(Observed):
    """One method: how it ended, and what was observed on the way."""

    seconds: float
    observed: list[Observed]


@dataclass(frozen=True, kw_only=True)
class Faded:
    """How much of a layer's random start is left at the end.

    start_norm, end_norm: ‖W‖² · start_left: κ, the factor of W(0) in W · start_share: κ² ‖W(0)‖² / ‖W‖² · left: what
    the training images leave of the layer, ‖·‖² relative to ‖θ_l‖², with multipliers fitted to this layer alone (hard
    ReLU′).
    """

    start_norm: float
    end_norm: float
    start_left: float
    start_share: float
    left: float


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How far training would have to go until the second layer's start is `share` of ‖W2‖², if all ‖W_l‖² grow alike
    (which gradient flow makes them) and the normalised margin stays.  growth: of every ‖W_l‖² · theta_norm: ‖θ‖ then ·
    log_loss: −γ ‖θ‖³."""

    share: float
    growth: float
    theta_norm: float
    log_loss: float


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
    """Both methods from the same start.  alpha: slope of the smoothed ReLU′ · steps_to_reference_loss: of loss-scaled
    descent, −1 if it never got there; at_reference_loss: what it had then."""

    n_train: int
    width: int
    steps: int
    loss_scaled: Annotated[Run, Field(alias="loss-scaled")]
    gradient_descent: Annotated[Run, Field(alias="gradient-descent")]
    alpha: float
    steps_to_reference_loss: int
    at_reference_loss: Observed | None
    first_layer: Faded
    second_layer: Faded
    needed: Needed
    weight_decay: Decayed
