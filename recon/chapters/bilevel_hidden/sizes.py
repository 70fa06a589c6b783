"""How large chapter 4 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """width: 6144 in the paper · seeds: of starts and weights, all on one set of images · inner_first, inner_next:
    L-BFGS iterations before and during the outer loop · train_iterations: likewise for θ* · weight_decays: the first is
    reported at top level · null_widths: at which two seeds are compared."""

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


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=16,
        steps=20,
        seeds=3,
        inner_first=150,
        weight_decays=(1e-3,),
        n_held_out=50,
        null_widths=(16,),
    ),
    "laptop": Sizes(n_train=40, width=64, steps=200, seeds=3),
    "paper": Sizes(n_train=40, width=6144, steps=200, seeds=3, n_held_out=1000, null_widths=(64, 1024, 6144)),
}
