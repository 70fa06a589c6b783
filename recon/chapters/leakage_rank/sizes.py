"""How large chapter 14 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.nets.conv import TABLE_1


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: names in `recon.nets.conv.TABLE_1`."""

    networks: tuple[str, ...] = tuple(TABLE_1)


SIZES = {
    "smoke": Sizes(networks=("CNN3 V2", "CNN3 V4")),
    "laptop": Sizes(),
    "paper": Sizes(),
}
