"""How large `leakage-appendix` is."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.leakage_networks import TABLE_1


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """without_bias: networks of Table 1 that release no gradient of their bias · constrained: the network of one
    convolution whose U x = V is kept exactly · share: of Hybrid's published steps, when the constraint is soft ·
    lbfgs, trust_region: steps when it is hard · epochs: of pre-training · images: of each group, whose
    gradients are measured before and after."""

    without_bias: tuple[str, ...] = tuple(TABLE_1)
    constrained: str = "CNN2 V2"
    share: float = 1.0
    lbfgs: int = 2_000
    trust_region: int = 400
    trained: tuple[str, ...] = ("CNN4 V1", "CNN4 V2")
    epochs: int = 300
    images: int = 20


SIZES = {
    "smoke": Sizes(
        without_bias=("CNN3 V4",),
        constrained="CNN2 V2",
        share=0.001,
        lbfgs=4,
        trust_region=2,
        trained=("CNN4 V1",),
        epochs=1,
        images=2,
    ),
    "laptop": Sizes(
        without_bias=("CNN2 V1", "CNN2 V2", "CNN3 V2"), share=0.1, lbfgs=300, trust_region=40, epochs=30, images=10
    ),
    "paper": Sizes(),
}
