"""How large appendix E is."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.leakage_networks import TABLE_1
from recon.nets.conv import Conv, ConvNet

SMALL = ("one convolution", "fully connected")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: of Table 1, or `SMALL` on images averaged down to 16 × 16 · images: attacked, of all classes ·
    table_images: attacked on networks of Table 1, where one takes minutes · noise: multipliers z, N(0, z² C²) on every
    entry of a gradient that is clipped to the norm C · kept: shares of the entries that compression leaves, on the
    first of `SMALL` · sign_steps: of CosineTV on signs · deficient: network whose c(M) is computed under
    noise."""

    networks: tuple[str, ...] = SMALL
    images: int = 4
    table_images: int = 4
    noise: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
    kept: tuple[float, ...] = (0.02, 0.05, 0.065, 0.08, 0.1, 0.2, 0.5, 1.0)
    sign_steps: int = 1000
    deficient: tuple[str, ...] = ("CNN2 V2", "CNN3 V2")


SIZES = {
    "smoke": Sizes(images=1, noise=(1e-2, 1e-1, 1.0), kept=(0.005, 0.3), sign_steps=10, deficient=("CNN3 V4",)),
    "laptop": Sizes(images=2),
    "paper": Sizes(networks=(*SMALL, "CNN2 V1", "CNN3 V2"), images=20, sign_steps=4800),
}


@dataclass(frozen=True, kw_only=True)
class PriorSizes:
    """networks, images, table_images, noise: as above · table_noise: multipliers on networks of Table 1."""

    networks: tuple[str, ...] = SMALL
    images: int = 4
    table_images: int = 3
    noise: tuple[float, ...] = (1e-2, 3e-2, 1e-1, 3e-1, 6e-1, 1.0, 3.0)
    table_noise: tuple[float, ...] = (3e-2, 1e-1, 3e-1, 1.0)

    def multipliers(self, name: str) -> tuple[float, ...]:
        """Of a network."""
        return self.noise if name in SMALL else self.table_noise


PRIOR_SIZES = {
    "smoke": PriorSizes(images=1, noise=(1e-2, 1e-1, 1.0)),
    "laptop": PriorSizes(images=2),
    "paper": PriorSizes(networks=(*SMALL, "CNN2 V1"), images=20),
}


def network_of(name: str) -> ConvNet:
    """By the name in `Sizes`."""
    small = (3, 16, 16)
    return {SMALL[0]: ConvNet((Conv(3, 6),), shape=small), SMALL[1]: ConvNet((), shape=small), **TABLE_1}[name]
