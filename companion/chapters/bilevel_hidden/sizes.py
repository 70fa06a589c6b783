"""How large chapter 3's runs on the one-hidden-layer net are."""

from __future__ import annotations

from dataclasses import dataclass

PAPER_WIDTH = 6144


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """width: 6144 in the paper · steps: outer ones · seeds: of starts and weights, all on one set of images ·
    inner_first, inner_next, settle: L-BFGS iterations before, during and after the outer loop · train_iterations:
    likewise for θ* · max_relative_step: of the images, in one outer step · weight_decays: the first is reported at top
    level · null_widths: at which two seeds are compared."""

    n_train: int
    width: int
    steps: int
    seeds: int
    inner_first: int = 1000
    inner_next: int = 10
    settle: int = 300
    train_iterations: int = 1000
    step_size: float = 10.0
    momentum: float = 0.5
    max_relative_step: float = 0.1
    weight_decays: tuple[float, ...] = (1e-3, 1e-2)
    tol: float = 1e-8
    n_held_out: int = 200
    null_widths: tuple[int, ...] = (64, 256, 1024)


SIZES = {
    "smoke": Sizes(
        n_train=10,
        width=16,
        steps=10,
        seeds=1,
        inner_first=80,
        settle=30,
        train_iterations=150,
        weight_decays=(1e-3,),
        n_held_out=50,
        null_widths=(16,),
    ),
    "laptop": Sizes(n_train=40, width=64, steps=60, seeds=2, weight_decays=(1e-3,), null_widths=(64, 256)),
    "paper": Sizes(
        n_train=40, width=PAPER_WIDTH, steps=100, seeds=1, n_held_out=1000, null_widths=(64, 1024, PAPER_WIDTH)
    ),
}


@dataclass(frozen=True, kw_only=True)
class PathSizes:
    """relative_step: longest outer step, of the images' norm."""

    n_train: int = 40
    width: int = 64
    steps: int = 150
    relative_step: float = 0.01
    weight_decay: float = 1e-3
    train_iterations: int = 1000
    n_held_out: int = 200


PATH_SIZES = {
    "smoke": PathSizes(
        n_train=6, width=8, steps=4, relative_step=0.1, weight_decay=0.1, train_iterations=150, n_held_out=50
    ),
    "laptop": PathSizes(),
    "paper": PathSizes(width=PAPER_WIDTH, n_held_out=1000),
}
