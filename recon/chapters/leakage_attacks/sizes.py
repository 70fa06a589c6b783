"""How large chapter 15 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.published import PRE_TRAINED
from recon.nets.conv import TABLE_1

ALL = (*TABLE_1, f"CNN4 V1{PRE_TRAINED}", f"CNN4 V2{PRE_TRAINED}")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: attacked by R-GAP · matched: those with gradient matching as well · share: of the published steps of
    Hybrid and CosineTV · dlg_steps: 300 as published, 0 for none · gallery: R-GAP on one image per class · epochs: of
    pre-training, 300 as published."""

    networks: tuple[str, ...] = ALL
    matched: tuple[str, ...] = ALL
    share: float = 1.0
    dlg_steps: int = 300
    gallery: tuple[str, ...] = ("CNN2 V2", "CNN3 V2")
    epochs: int = 300


SIZES = {
    "smoke": Sizes(
        networks=("CNN3 V2", "CNN4 V1 pre-trained"),
        matched=("CNN3 V2",),
        share=0.003,
        dlg_steps=3,
        gallery=("CNN3 V2",),
        epochs=1,
    ),
    "laptop": Sizes(matched=("CNN2 V2", "CNN3 V2"), share=0.25, dlg_steps=0, epochs=30),
    "paper": Sizes(),
}
