"""What appendix E measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Noisy:
    """One network at one noise multiplier z.  mse: of the most probable image, for each image · predicted: mean
    posterior variance of its entries, computed by the adversary without the truth · rgap: error of R-GAP, None where
    the network has no convolution."""

    z: float
    mse: list[float]
    predicted: list[float]
    rgap: list[float] | None


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """ε at δ = 1e-5 of one release with multiplier z, and of 10 000 steps with batches of 256 from 50 000."""

    z: float
    once: float
    training: float


@dataclass(frozen=True, kw_only=True)
class Compressed:
    """A share of the entries is left: the largest, or random ones.  equations over unknowns · found: images within half
    a grey level by Gauss–Newton · mse: mean."""

    share: float
    equations: float
    largest_found: int
    largest_mse: float
    random_found: int
    random_mse: float


@dataclass(frozen=True, kw_only=True)
class Signs:
    """CosineTV as its authors run it, on the signs of a gradient and on the gradient itself."""

    mse: list[float]
    whole_mse: list[float]


@dataclass(frozen=True, kw_only=True)
class Deficiency:
    """Σ of the layers' rank deficiencies at σ relative to each tensor's root mean square; c(M)."""

    network: str
    sigma: list[float]
    c: list[int]


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """noise: by network · grey: error of a grey image, by network, for each image."""

    noise: dict[str, list[Noisy]]
    grey: dict[str, list[float]]
    privacy: list[Privacy]
    compressed: list[Compressed]
    signs: Signs
    deficiency: list[Deficiency]
    n_images: int


@dataclass(frozen=True, kw_only=True)
class Public:
    """One network at one z, attacked with the prior of public photographs.  mse: of the most probable image, for each
    image · predicted: mean posterior variance of its entries, without the truth · ncc: with the image · own: images
    whose reconstruction has a larger NCC with them than with every public image · blind, blind_ncc: error and NCC of
    the most probable image of the same noisy gradient for the adversary who takes every pixel by itself."""

    z: float
    mse: list[float]
    predicted: list[float]
    ncc: list[float]
    own: int
    blind: list[float]
    blind_ncc: list[float]


@dataclass(frozen=True, kw_only=True)
class PriorMetrics:
    """noise: by network · grey, mean: error of a grey image, and of the mean of the public ones, for each image ·
    mean_ncc: of that mean with each image · n_public: images that the prior is estimated from, of the last network ·
    shrinkage: of their covariance, by network · privacy: as above."""

    noise: dict[str, list[Public]]
    grey: dict[str, list[float]]
    mean: dict[str, list[float]]
    mean_ncc: dict[str, list[float]]
    shrinkage: dict[str, float]
    privacy: list[Privacy]
    n_images: int
    n_public: int
