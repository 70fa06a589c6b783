"""All sizes and budgets, in one place.  A profile changes these, never the method."""

from __future__ import annotations

from dataclasses import dataclass

PROFILES = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Linear:
    """§3.1. n_train: images of the training and of the counterfactual set · iterations: of the projection, at most."""

    n_train: int
    weight_decay: float = 1e-2
    iterations: int = 80
    tol: float = 1e-14


LINEAR = {"smoke": Linear(n_train=40), "laptop": Linear(n_train=500), "paper": Linear(n_train=500)}


@dataclass(frozen=True)
class Collapse:
    """§3.2. width: of the hidden layer · steps: of loss-scaled descent (no weight decay), at most · goal: log-loss
    at which training ends; much lower, and gradients underflow even in float64."""

    n_train: int
    width: int
    steps: int
    goal: float = -15.0
    n_held_out: int = 200
    weight_decay: float = 1e-3


COLLAPSE = {
    "smoke": Collapse(n_train=40, width=64, steps=200, n_held_out=50),
    "laptop": Collapse(n_train=100, width=500, steps=1000),
    "paper": Collapse(n_train=500, width=1000, steps=3000, n_held_out=1000),
}


@dataclass(frozen=True)
class BilevelAffine:
    """§4.3, eq. (8). steps: outer iterations at most · tol: outer energy at which a start is done ·
    momentum: more is faster, and overshoots farther from the start before it settles."""

    n_train: int
    steps: int
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    n_held_out: int = 200


BILEVEL_AFFINE = {
    "smoke": BilevelAffine(n_train=20, steps=150, n_held_out=50),
    "laptop": BilevelAffine(n_train=40, steps=600),
    "paper": BilevelAffine(n_train=500, steps=3000, n_held_out=1000),
}


@dataclass(frozen=True)
class BilevelHidden:
    """§4.3, eq. (9). width: 6144 in the paper · inner_first, inner_next: L-BFGS iterations before and during the outer
    loop · train_iterations: likewise for θ* · weight_decays: the first is reported at top level."""

    n_train: int
    width: int
    steps: int
    seeds: int
    inner_first: int = 500
    inner_next: int = 10
    train_iterations: int = 1000
    step_size: float = 0.3
    momentum: float = 0.5
    weight_decays: tuple[float, ...] = (1e-3, 1e-2)
    tol: float = 1e-8
    n_held_out: int = 200


BILEVEL_HIDDEN = {
    "smoke": BilevelHidden(
        n_train=20, width=16, steps=20, seeds=3, inner_first=150, weight_decays=(1e-3,), n_held_out=50
    ),
    "laptop": BilevelHidden(n_train=40, width=64, steps=200, seeds=3),
    "paper": BilevelHidden(n_train=40, width=6144, steps=200, seeds=3, n_held_out=1000),
}
