"""How large chapter 2 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """width: of the hidden layer · steps: of loss-scaled descent (no weight decay), at most · goal: log-loss at which
    training ends; much lower, and gradients underflow even in float64 · weight_decay: of the second network."""

    n_train: int
    width: int
    steps: int
    goal: float = -15.0
    n_held_out: int = 200
    weight_decay: float = 1e-3


SIZES = {
    "smoke": Sizes(n_train=40, width=64, steps=200, n_held_out=50),
    "laptop": Sizes(n_train=100, width=500, steps=1000),
    "paper": Sizes(n_train=500, width=1000, steps=3000, n_held_out=1000),
}
