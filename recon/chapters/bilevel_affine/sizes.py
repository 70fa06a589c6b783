"""How large chapter 3 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """steps: outer iterations at most · tol: outer energy at which a start is done · momentum: more is faster, and
    overshoots farther from the start before it settles."""

    n_train: int
    steps: int
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    n_held_out: int = 200


SIZES = {
    "smoke": Sizes(n_train=20, steps=150, n_held_out=50),
    "laptop": Sizes(n_train=40, steps=600),
    "paper": Sizes(n_train=500, steps=3000, n_held_out=1000),
}
