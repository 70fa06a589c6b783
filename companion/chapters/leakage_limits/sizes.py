"""How large `leakage-limits` is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Residual:
    """A network with one residual block.  channels · activation · pooled: whether the mean over positions comes before
    the last layer, as He et al. have it."""

    channels: int
    activation: str
    pooled: bool

    @property
    def name(self) -> str:
        """As figures and tables name it."""
        return f"{self.activation}, {'pooled' if self.pooled else 'flat'}, {self.channels} channels"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """residual: networks · side: of their images, averaged down · images: attacked, of all classes · hops: of
    Gauss–Newton, at most · match_steps: of Adam on the cosine · public: images that the server has of its own ·
    batches: sizes of a client's batch · bins: of the server's layer."""

    residual: tuple[Residual, ...] = tuple(
        Residual(channels=channels, activation=activation, pooled=pooled)
        for activation in ("tanh", "relu")
        for pooled, channels in ((False, 8), (True, 8))
    )
    side: int = 8
    images: int = 4
    hops: int = 12
    match_steps: int = 500
    public: int = 500
    batches: tuple[int, ...] = (16, 64, 256)
    bins: tuple[int, ...] = (64, 256, 1024)


SIZES = {
    "smoke": Sizes(
        residual=(
            Residual(channels=4, activation="tanh", pooled=False),
            Residual(channels=4, activation="relu", pooled=True),
        ),
        side=4,
        images=1,
        hops=1,
        match_steps=5,
        public=60,
        batches=(8, 16),
        bins=(16, 64),
    ),
    "laptop": Sizes(images=2),
    "paper": Sizes(
        residual=(
            *Sizes.residual,
            Residual(channels=16, activation="tanh", pooled=True),
            Residual(channels=16, activation="relu", pooled=True),
        ),
        images=20,
        hops=25,
    ),
}
