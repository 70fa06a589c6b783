"""How large `leakage-designs` is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """count: networks drawn, all different · side: of their images, averaged down · images: attacked, of all classes ·
    cosine_steps: of CosineTV."""

    count: int = 20
    side: int = 16
    images: int = 4
    cosine_steps: int = 600


SIZES = {
    "smoke": Sizes(count=10, side=8, images=1, cosine_steps=10),
    "laptop": Sizes(images=2),
    "paper": Sizes(count=60, cosine_steps=2400),
}
