"""What `leakage-designs` measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from companion.chapters.leakage_common import LEAST


@dataclass(frozen=True, kw_only=True)
class Design:
    """One network drawn at random.

    name: kernel, channels, stride, padding of every convolution · c: c(M) · deficiencies: of the layers, one by one ·
    amplified: how many times a relative noise of 1e-6 on the first image's gradient grows in R-GAP's image · width:
    outputs of the first layer over entries of the image · condition: product of the layers' condition numbers ·
    equations: entries of the last layer's input and of the convolutions' weights, all taken for independent · unknowns:
    entries of the image, of which no layer reads `unread` · missing: rank of all layers together minus entries that are
    read, for each image · found, known: by Gauss–Newton, for each image · rgap, cosine: errors, for each image.
    """

    name: str
    c: int
    deficiencies: list[int]
    amplified: float
    width: float
    condition: float
    equations: int
    unknowns: int
    unread: int
    missing: list[int]
    found: list[bool]
    known: list[bool]
    rgap: list[float]
    cosine: list[float]

    def decibels(self, method: str) -> float:
        """Mean PSNR (peak 1) of "rgap" or "cosine", rounding apart."""
        return float(np.mean([-10 * np.log10(max(error, LEAST)) for error in getattr(self, method)]))


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """designs: in the order of the draw · grey: error of a grey image, for each image."""

    designs: list[Design]
    grey: list[float]
