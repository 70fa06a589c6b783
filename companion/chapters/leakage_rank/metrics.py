"""What chapter 10 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from companion.chapters.leakage_common import Spread
from companion.chapters.published import METHODS


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """One network, layer by layer from the image on.

    rd: rank deficiency of each layer's system · generic_rd: by the formula in the layer's shape · condition: condition
    number · unknowns: dim x_{i−1} · c: the security metric c(M) · published_…: in Table 1.
    """

    rd: list[int]
    generic_rd: list[int]
    condition: list[float]
    unknowns: list[int]
    c: int
    published_rd: list[int]
    published_c: int

    @property
    def as_published(self) -> bool:
        """Whether every integer is that of Table 1."""
        return self.rd == self.published_rd and self.c == self.published_c


OURS = "R-GAP, ours"
WITHOUT = ", without CNN4 V2"


@dataclass(frozen=True, kw_only=True)
class Metrics(Spread):
    """networks: by name · spearman_with_published_psnr: rank correlation of c(M) with each method's published PSNR, and
    with `OURS`, with and `WITHOUT` CNN4 V2; None for fewer than three networks · chance: how often networks in random
    order have a correlation as large."""

    rows_field: ClassVar[str] = "networks"

    networks: dict[str, Ranks]
    seconds: float
    spearman_with_published_psnr: dict[str, float | None]
    chance: dict[str, float | None]

    def correlations(self) -> dict[str, float]:
        """Those that there are, in the order of Appendix E."""
        found = self.spearman_with_published_psnr
        keys = [key for method in (*METHODS, OURS) for key in (method, method + WITHOUT)]
        return {key: value for key in keys if (value := found.get(key)) is not None}


@dataclass(frozen=True, kw_only=True)
class GaussNewton:
    """On the joint system, from grey, means over images unless said otherwise.

    mse: over all entries; of what the network reads: mse_read · residual: ‖g(x̂) − g‖/‖g‖, the largest · certified:
    whether the adversary may be sure, of every image: the residual is rounding, and the rank at x̂ lacks nothing but
    entries that are not read · seconds: of one image · iterations: the most.
    """

    mse: float
    mse_read: float
    residual: float
    certified: bool
    seconds: float
    iterations: int


@dataclass(frozen=True, kw_only=True)
class Counterfactual:
    """Another photograph, moved inside [0, 1] until it has the first victim's gradient.

    residual: as above · mse_to_victim, mse_to_start: of the result · start_mse: between the two photographs.
    """

    residual: float
    mse_to_victim: float
    mse_to_start: float
    start_mse: float


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Of the images, how many are determined (nothing is missing at the truth but what is not read), found (every entry
    that is read to half a grey level), known to be found (certified), and certified without being found."""

    determined: int
    found: int
    known: int
    falsely_known: int


@dataclass(frozen=True)
class Singular:
    """Of the Jacobian of all gradients by the image, at the first victim: its singular values that count, as `RowSpace`
    counts them, the least and the greatest."""

    least: float
    greatest: float


@dataclass(frozen=True, kw_only=True)
class Identified:
    """One network.

    c: the security metric, from the layers' shapes · joint_deficiency: rank of the joint Jacobian minus unknowns, at
    the first victim; joint_deficiencies: the least and the greatest over all · unread_pixels, fixed_pixels: entries of
    the image that no equation reads, and that the gradient fixes · rgap_…: R-GAP on the same images · singular: None in
    a run that was made before they were computed.
    """

    c: int
    joint_deficiency: int
    joint_deficiencies: list[int]
    unread_pixels: int
    fixed_pixels: int
    gauss_newton: GaussNewton
    counts: Counts
    rgap_mse: float
    rgap_found: int
    counterfactual: Counterfactual
    singular: Singular | None = None


@dataclass(frozen=True, kw_only=True)
class Predictors:
    """Spearman correlations over networks."""

    c: float | None
    joint: float | None


@dataclass(frozen=True, kw_only=True)
class IdentifiabilityMetrics(Spread):
    """networks: by name · n_images · grey_mse: of a grey image · spearman: attack -> rank correlation of its PSNR over
    networks with c(M) and with the joint deficiency; None for fewer than three networks."""

    rows_field: ClassVar[str] = "networks"

    networks: dict[str, Identified]
    n_images: int
    grey_mse: float
    spearman: dict[str, Predictors]
