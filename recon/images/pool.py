"""One pool of images, with everything an experiment may ask of it: its shape travels with it."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError

PARTS = ("train", "init", "held_out")
Shape = tuple[int, int, int]


def shape_of(dim: int) -> Shape:
    """(C, H, W) of a flat square image of `dim` numbers, in colour where that is possible.

    >>> shape_of(3072), shape_of(64)
    ((3, 32, 32), (1, 8, 8))
    """
    for channels in (3, 1):
        side = math.isqrt(dim // channels)
        if channels * side * side == dim:
            return channels, side, side
    raise ReconError(f"{dim} numbers are no square image")


@dataclass(frozen=True)
class ImagePool:
    """N images of one source, and which of them may play which part.

    Attributes:
        images: (N, C, H, W) uint8.
        labels: (N,) int64, the class as a number in 0 … K − 1.
        y: (N,) int64 in {0, 1}, the two classes that networks with one output tell apart.
        index: (N,) int64, the number of an image in its source, each once.
        part: (N,) of "train" | "init" | "held_out".
        notice: a sentence for the page when this is a stand-in.
        interchangeable: whether images of the other parts may be trained on, when those of "train"
            are used up.
        sha256: over pixels, y and indices, hence the same for the same images wherever they came
            from.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    y: np.ndarray
    index: np.ndarray
    part: np.ndarray
    notice: str = ""
    interchangeable: bool = False
    sha256: str = field(default="", init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256()
        for array in (self.images, self.y.astype("<i8"), self.index.astype("<i8")):
            digest.update(np.ascontiguousarray(array).tobytes())
        object.__setattr__(self, "sha256", digest.hexdigest())

    def __len__(self) -> int:
        return len(self.index)

    @property
    def shape(self) -> Shape:
        """(C, H, W)."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def pixels(self, rows: Sequence[int] | np.ndarray | Tensor) -> Tensor:
        """Images (n, C, H, W) of these rows (n,), float32 in [0, 1]."""
        return torch.from_numpy(self.images[np.asarray(rows)]).float() / 255


def thirds(n: int) -> np.ndarray:
    """(n,) of "train" | "init" | "held_out": n images dealt by a fixed permutation, for sources
    without parts.
    """
    part = np.empty(n, dtype="<U8")
    for name, rows in zip(
        PARTS, np.array_split(np.random.default_rng(0).permutation(n), 3), strict=True
    ):
        part[rows] = name
    return part
