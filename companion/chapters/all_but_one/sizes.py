"""How large the experiments of appendix H are."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.all_but_one.reconstructor import ReaderSettings
from companion.chapters.all_but_one.shadows import Recipe


@dataclass(frozen=True, kw_only=True)
class LinearSizes:
    """ns: numbers of training images, each of which is once the one that is missing · weight_decay: as in chapter 1."""

    ns: tuple[int, ...] = (40, 100, 200, 500)
    weight_decay: float = 1e-2


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
