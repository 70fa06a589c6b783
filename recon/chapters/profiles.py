"""All sizes and budgets, in one place.  A profile changes these, never the method."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.recover import Settings

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
    """§4.3, eq. (9). width: 6144 in the paper · seeds: of starts and weights, all on one set of images · inner_first,
    inner_next: L-BFGS iterations before and during the outer loop · train_iterations: likewise for θ* · weight_decays:
    the first is reported at top level · null_widths: at which two seeds are compared."""

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
    null_widths: tuple[int, ...] = (64, 256, 1024)


BILEVEL_HIDDEN = {
    "smoke": BilevelHidden(
        n_train=20,
        width=16,
        steps=20,
        seeds=3,
        inner_first=150,
        weight_decays=(1e-3,),
        n_held_out=50,
        null_widths=(16,),
    ),
    "laptop": BilevelHidden(n_train=40, width=64, steps=200, seeds=3),
    "paper": BilevelHidden(n_train=40, width=6144, steps=200, seeds=3, n_held_out=1000, null_widths=(64, 1024, 6144)),
}


@dataclass(frozen=True)
class Landscape:
    """§4.5, eq. (10). n_train: images per seed; every seed has its own images, noise and network · steps, step_size,
    momentum, tol: of the bilevel descent, as in chapter 3 · width, train_steps, descent_steps, descent_momentum,
    attack: of the three-layer net, of the descent in all pixels, and of our attack on it · fine, fine_steps: points per
    axis of the fine map of the affine net · pairs, points: segments between end points, and points on each ·
    line_points: on the lines from the truth."""

    n_train: int
    seeds: int
    steps: int
    width: int
    train_steps: int
    descent_steps: int
    attack: Settings
    fine: int = 21
    fine_steps: int = 600
    pairs: int = 40
    points: int = 11
    line_points: int = 101
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    descent_momentum: float = 0.9
    tol: float = 1e-8
    lambdas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


LANDSCAPE = {
    "smoke": Landscape(
        *(10, 2, 100, 32, 100, 30, Settings(m=10, restarts=1, steps=60, scale_steps=20)),
        fine=5,
        fine_steps=30,
        pairs=4,
        points=5,
        line_points=11,
    ),
    "laptop": Landscape(40, 3, 1500, 300, 600, 400, Settings(m=40, restarts=1)),
    "paper": Landscape(100, 5, 4000, 1000, 1500, 2000, Settings(m=100, restarts=1, steps=3000), fine=41),
}
