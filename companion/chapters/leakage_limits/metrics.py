"""What `leakage-limits` measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Block:
    """One network with a residual block.  equations: entries of its gradient · unknowns: of an image · rank: of the
    Jacobian at the first image · counts of images: found to half a grey level, known to be found by the adversary, and
    known but not found · mse, residual: of each image · matched: error of Adam on the cosine, of each image;
    matched_found: images that it finds."""

    name: str
    equations: int
    unknowns: int
    rank: int
    determined: int
    found: int
    known: int
    falsely_known: int
    mse: list[float]
    matched: list[float]
    matched_found: int
    residual: list[float]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Imprinted:
    """One batch of n images through a layer with so many bins.  alone: images that share their bin with no other ·
    expected: of them, if all bins were equally likely · found: images within half a grey level · known: candidates that
    the server holds to be one image · falsely_known: of these, the ones that are none · honest: images within half a
    grey level in the rows of an ordinary layer as wide, by eq. (4)."""

    n: int
    bins: int
    alone: int
    expected: float
    found: int
    known: int
    falsely_known: int
    honest: int


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """blocks: by network · grey: error of a grey image, for each image · imprint: by batch and bins."""

    blocks: list[Block]
    grey: list[float]
    imprint: list[Imprinted]
