"""How large `leakage-designs` is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """count: networks drawn · side: of their images, averaged down · images: attacked, of all classes · cosine_steps:
    of CosineTV."""

    count: int = 24
    side: int = 16
    images: int = 2
    cosine_steps: int = 1000


SIZES = {
    "smoke": Sizes(count=10, side=8, images=1, cosine_steps=10),
    "laptop": Sizes(),
    "paper": Sizes(count=100, images=4, cosine_steps=4800),
}
