"""How large chapter 5 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Training without weight decay. steps: of both methods, loss-scaled descent and the reference recipe ·
    reference_goal: log of the training loss at which the reference recipe ends (4e-6) · weight_decay: of the
    regression variant, L-BFGS for at most `decay_iterations`."""

    n_train: int
    width: int
    steps: int
    weight_decay: float = 7.5e-4
    decay_iterations: int = 400
    reference_goal: float = -12.43
    reference_step_size: float = 0.01
    reference_epochs: int = 1_000_000


SIZES = {
    "smoke": Sizes(n_train=20, width=64, steps=150, decay_iterations=200),
    "laptop": Sizes(n_train=100, width=1000, steps=1500),
    "paper": Sizes(n_train=500, width=1000, steps=6000),
}
