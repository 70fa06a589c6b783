"""How large chapter 11 is."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.leakage_networks import TABLE_1
from companion.chapters.published import PRE_TRAINED
from recon.attacks.gradient_matching import COSINE_STEPS, DLG_STEPS

ALL = (*TABLE_1, f"CNN4 V1{PRE_TRAINED}", f"CNN4 V2{PRE_TRAINED}")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: attacked by R-GAP · matched: those with gradient matching as well · share: of the published steps of
    Hybrid and CosineTV · dlg_steps: 300 as published, 0 for none · epochs: of pre-training, 300 as published."""

    networks: tuple[str, ...] = ALL
    matched: tuple[str, ...] = ALL
    share: float = 1.0
    dlg_steps: int = 300
    epochs: int = 300


SIZES = {
    "smoke": Sizes(
        networks=("CNN3 V2", "CNN4 V1", "CNN4 V1 pre-trained"),
        matched=("CNN3 V2",),
        share=0.003,
        dlg_steps=3,
        epochs=1,
    ),
    "laptop": Sizes(matched=("CNN2 V2", "CNN3 V2"), share=0.05, dlg_steps=0, epochs=20),
    "paper": Sizes(),
}


@dataclass(frozen=True, kw_only=True)
class MatchingSizes:
    """networks: of Table 1 · images: the paper's two, and beyond them as many of every class · cosine_steps: of
    CosineTV, 4800 as published · hybrid_share: of the published steps · dlg_steps: 300 as published, 0 for none ·
    swept: networks on which the weight of the total variation takes the values tv, and CosineTV `starts` starts."""

    networks: tuple[str, ...] = tuple(TABLE_1)
    images: int = 20
    cosine_steps: int = COSINE_STEPS
    hybrid_share: float = 1.0
    dlg_steps: int = DLG_STEPS
    swept: tuple[str, ...] = ("CNN2 V2",)
    tv: tuple[float, ...] = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
    starts: int = 3


MATCHING_SIZES = {
    "smoke": MatchingSizes(
        networks=("CNN3 V4",),
        images=1,
        cosine_steps=8,
        hybrid_share=0.002,
        dlg_steps=2,
        swept=("CNN3 V4",),
        tv=(0.01, 0.1),
        starts=2,
    ),
    "laptop": MatchingSizes(
        networks=("CNN2 V2", "CNN3 V2"),
        images=2,
        cosine_steps=600,
        hybrid_share=0.05,
        dlg_steps=0,
        tv=(0.0, 1e-3, 1e-2, 1e-1),
        starts=2,
    ),
    "paper": MatchingSizes(swept=("CNN2 V1", "CNN2 V2", "CNN4 V2")),
}
