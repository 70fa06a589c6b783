"""Training as the reference code does it, in seconds: along the gradient flow, down to its own final loss, no further.

Haim et al. (2022) take 10⁶ steps of gradient descent of size 0.01, which follow the gradient flow closely, and end at a
loss near 4e-6.  Descent on the logarithm of the loss runs through the same curve, dθ/ds = −∇E/E instead of −∇E, without
slowing down as E falls.  So ‖θ‖ is the reference's, and its published attack fits: train on, and it grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from recon.optim.descent import HeavyBall, Optimiser
from recon.training.kkt import KKTSettings

FINAL_LOSS = 4e-6


@dataclass(frozen=True)
class FlowSettings(KKTSettings):
    """steps: at most · goal: log E at which training ends, the reference's · relative_step: no step is longer than this
    share of ‖θ‖, so that the curve is the flow's; there is no momentum."""

    steps: int = 5000
    goal: float = math.log(FINAL_LOSS)
    relative_step: float = 3e-3

    @property
    def optimiser(self) -> Optimiser:
        """What moves θ."""
        return HeavyBall(1.0, momentum=0.0, tol=self.goal, max_relative_step=self.relative_step)
