"""How large chapter 1 is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """n_train: images of the training and of the counterfactual set · iterations: of the projection, at most · by_n:
    numbers of images at which the distance moved is measured · decays: weight decays, with `decays_n` images · flipped:
    shares of labels · twins: images of each of the two sets of 8 bits, at weight decay `twins_decay`."""

    n_train: int
    by_n: tuple[int, ...]
    decays_n: int
    twins: int
    weight_decay: float = 1e-2
    iterations: int = 80
    tol: float = 1e-14
    decays: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    flipped: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0)
    twins_decay: float = 3e-5


SIZES = {
    "smoke": Sizes(n_train=40, by_n=(20, 40), decays_n=40, twins=80, decays=(1e-3, 1e-2), flipped=(0.0, 1.0)),
    "laptop": Sizes(n_train=200, by_n=(40, 100, 200), decays_n=100, twins=100),
    "paper": Sizes(n_train=500, by_n=(40, 100, 200, 500, 1000, 2500), decays_n=500, twins=500),
}
