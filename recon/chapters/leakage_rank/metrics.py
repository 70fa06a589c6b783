"""What chapter 14 measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from recon.chapters.leakage_common import Spread
from recon.chapters.published import METHODS


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
    with `OURS`, with and `WITHOUT` CNN4 V2; None for fewer than three networks."""

    rows_field: ClassVar[str] = "networks"

    networks: dict[str, Ranks]
    seconds: float
    spearman_with_published_psnr: dict[str, float | None]

    def correlations(self) -> dict[str, float]:
        """Those that there are, in the order of Appendix E."""
        found = self.spearman_with_published_psnr
        keys = [key for method in (*METHODS, OURS) for key in (method, method + WITHOUT)]
        return {key: value for key in keys if (value := found.get(key)) is not None}
