"""How large chapter 10 is."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.leakage_networks import TABLE_1


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: names in `companion.chapters.leakage_networks.TABLE_1`."""

    networks: tuple[str, ...] = tuple(TABLE_1)


SIZES = {
    "smoke": Sizes(networks=("CNN3 V2", "CNN3 V4")),
    "laptop": Sizes(),
    "paper": Sizes(),
}


@dataclass(frozen=True, kw_only=True)
class IdentifiabilitySizes:
    """networks: as above · images: the paper's two, and beyond them as many of every class."""

    networks: tuple[str, ...] = tuple(TABLE_1)
    images: int = 2


IDENTIFIABILITY_SIZES = {
    "smoke": IdentifiabilitySizes(networks=("CNN3 V4",), images=1),
    "laptop": IdentifiabilitySizes(networks=("CNN2 V1", "CNN3 V2", "CNN3 V3"), images=1),
    "paper": IdentifiabilitySizes(images=100),
}
