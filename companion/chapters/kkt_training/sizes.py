"""How large appendix A is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Training without weight decay. steps: of loss-scaled descent · reference_steps: of the reference recipe · alpha:
    slope of the smoothed ReLU′, the attack's · faded: share of ‖W2‖² at which its start would count as gone ·
    reference_goal: log of the training loss at which the reference recipe ends (4e-6) · weight_decay: of the
    regression variant, L-BFGS for at most `decay_iterations`."""

    n_train: int
    width: int
    steps: int
    reference_steps: int
    alpha: float = 100.0
    faded: float = 0.1
    weight_decay: float = 7.5e-4
    decay_iterations: int = 400
    reference_goal: float = -12.43
    reference_step_size: float = 0.01
    reference_epochs: int = 1_000_000


SIZES = {
    "smoke": Sizes(n_train=20, width=64, steps=150, reference_steps=150, decay_iterations=200),
    "laptop": Sizes(n_train=100, width=500, steps=1500, reference_steps=800, decay_iterations=200),
    "paper": Sizes(n_train=500, width=1000, steps=3000, reference_steps=1000),
}
