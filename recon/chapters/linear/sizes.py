"""How large chapter 1 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """n_train: images of the training and of the counterfactual set · iterations: of the projection, at most."""

    n_train: int
    weight_decay: float = 1e-2
    iterations: int = 80
    tol: float = 1e-14


SIZES = {
    "smoke": Sizes(n_train=40),
    "laptop": Sizes(n_train=500),
    "paper": Sizes(n_train=500),
}
