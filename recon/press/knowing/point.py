"""One mark of the map: an attack on a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

NOTHING, LOOKS, NEARLY = "weights", "weights, distribution", "weights, start up to 10 %"
START, RECIPE = "weights, start", "weights, start, labels and recipe"
REST, RETRAIN = "weights, all images but one", "weights, all images but one, start and recipe"
GRADIENT = "weights, a gradient"
#: what the adversary has, from the least to the most; distribution: of images or of starts
KNOWLEDGE = (NOTHING, LOOKS, NEARLY, START, RECIPE, REST, RETRAIN, GRADIENT)
#: where the adversary's evidence is judged by how it ranks candidates, and they name none: experiment to chapter
RANKED = {
    "decoreco-tuned": "07-adversary",
    "seed": "g-seed",
    "seed-distribution": "g-seed",
    "architectures-dense": "j-architectures",
}
AFFINE, HIDDEN, DENSE, FEATURES = "affine", "one hidden layer", "dense", "random features"
CONVOLUTIONS, BLOCK = "one to three convolutions", "residual block"
NETWORKS = (AFFINE, HIDDEN, DENSE, FEATURES, CONVOLUTIONS, BLOCK)
CIFAR = 3 * 32 * 32
EXACT = 1e-9  # mean squared error of a pixel, far below the 4e-6 of half a grey level


@dataclass(frozen=True, kw_only=True)
class Point:
    """One attack on one network.

    experiment: where it is from · told: p / (d m) · network: one of `NETWORKS` · unknown: images that the adversary
    misses, m · found, null: those that an attack recovers, above NCC 0.7 or exactly, and the best that costs nothing
    · sure: those that are found and that the adversary is rightly sure of; None where that was not asked, or only by
    ranks (`RANKED`) · others: whether other images are shown that explain as well what was released · kept: whether
    more is left of the random start in the first layer than training added, for dense networks · counted: False where
    `found` stands for a share of an error and not for images.
    """

    experiment: str
    knowledge: str
    told: float
    network: str
    unknown: int
    found: int
    null: int
    sure: int | None = None
    others: bool = False
    kept: bool = False
    counted: bool = True

    @property
    def share(self) -> float:
        """Images beyond the null, of those that they miss; in [0, 1]."""
        return max(self.found - self.null, 0) / self.unknown


#: the points of a result, from its metrics and its config
Reader = Callable[[Any, Any], Iterator[Point]]


def told(parameters: int, unknown: int, dim: int = CIFAR) -> float:
    """p / (d m).

    >>> told(3073, 500) < 0.01 < 1 < told(4_000_000, 100)
    True
    """
    return parameters / (dim * unknown)


__all__ = ["KNOWLEDGE", "NETWORKS", "RANKED", "Point", "Reader", "told"]
