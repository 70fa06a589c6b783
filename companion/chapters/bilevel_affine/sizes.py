"""How large chapter 3 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """steps, plain_steps: outer iterations at most, of ours and of the paper's descent · tol: outer energy at which a
    start is done · momentum: more is faster, and overshoots farther from the start before it settles · stop_at:
    accuracies at which the inner problem is stopped."""

    n_train: int
    steps: int
    plain_steps: int
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    n_held_out: int = 200
    stop_at: tuple[float, ...] = (1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)


SIZES = {
    "smoke": Sizes(n_train=20, steps=150, plain_steps=150, n_held_out=50),
    "laptop": Sizes(n_train=40, steps=600, plain_steps=1000),
    "paper": Sizes(n_train=500, steps=500, plain_steps=1000, step_size=3.0, momentum=0.9, n_held_out=1000),
}
