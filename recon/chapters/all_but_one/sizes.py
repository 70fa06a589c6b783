"""How large chapter 20 is: four experiments."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.reconstructor import ReaderSettings
from recon.training.all_but_one import Recipe


@dataclass(frozen=True, kw_only=True)
class LinearSizes:
    """ns: numbers of training images, each of which is once the one that is missing · weight_decay: as in chapter 1."""

    ns: tuple[int, ...] = (40, 100, 200, 500)
    weight_decay: float = 1e-2


@dataclass(frozen=True, kw_only=True)
class OutputSizes:
    """n_train · sides: of the images, in pixels; d = 3 side² · budgets: ρ/d · decay, clip: λ and C of the release, as
    in Figs. 4 and 8 of Cairney-Leeming et al. · targets: images that are missing once each, of both classes alike."""

    n_train: int = 1000
    sides: tuple[int, ...] = (4, 8, 16)
    budgets: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
    decay: float = 1.0
    clip: float = 0.125
    targets: int = 12


@dataclass(frozen=True, kw_only=True)
class SgdSizes:
    """n_train: the known images and the missing one · candidates: for it · steps, lr, clip, width: as in Hayes et al.'s
    code · noises: σ, in units of the clip · runs: trainings at each, on every candidate equally often · at_once."""

    n_train: int = 200
    candidates: int = 8
    steps: int = 100
    lr: float = 9.0
    clip: float = 0.1
    width: int = 10
    noises: tuple[float, ...] = (40.0, 27.0, 10.0, 5.0)
    runs: int = 400
    at_once: int = 200


@dataclass(frozen=True, kw_only=True)
class ReaderSizes:
    """On scikit-learn's digits whatever the pool.  n_known: images that every network shares · shadows: networks to
    practise on · victims: networks under attack · width: of the networks · recipe · reader: of the reconstructor ·
    inverted: victims that are attacked by retraining · asked: victims whose reconstruction is retrained on."""

    n_known: int = 100
    shadows: int = 2000
    victims: int = 200
    width: int = 10
    recipe: Recipe = Recipe()
    reader: ReaderSettings = ReaderSettings(width=500, epochs=50)
    inverted: int = 4
    asked: int = 50


LINEAR = {
    "smoke": LinearSizes(ns=(20, 40), weight_decay=1.0),  # rounding stays below what tests compare
    "laptop": LinearSizes(),
    "paper": LinearSizes(ns=(40, 100, 200, 500, 1000)),
}
OUTPUT = {
    "smoke": OutputSizes(n_train=60, sides=(2, 4), budgets=(0.1, 10.0, 1000.0), targets=4),
    "laptop": OutputSizes(),
    "paper": OutputSizes(sides=(4, 8, 16, 32), targets=24),
}
SGD = {
    "smoke": SgdSizes(n_train=40, candidates=4, steps=20, noises=(10.0, 2.0), runs=40, at_once=40),
    "laptop": SgdSizes(),
    "paper": SgdSizes(n_train=1000, runs=1000, noises=(75.0, 40.0, 27.0, 21.0, 10.0, 5.0)),
}
READER = {
    "smoke": ReaderSizes(
        n_known=30,
        shadows=80,
        victims=20,
        recipe=Recipe(steps=20),
        reader=ReaderSettings(width=32, epochs=5),
        inverted=1,
        asked=10,
    ),
    "laptop": ReaderSizes(),
    "paper": ReaderSizes(n_known=300, shadows=10_000, reader=ReaderSettings(width=500, epochs=60), inverted=6),
}
