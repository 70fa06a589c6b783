"""How large appendix D is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Batch:
    """side: of the images, 32 or averaged down to it · channels: of the one convolution (kernel 3) · n: images · same:
    all of one label, else as many labels as possible."""

    side: int
    channels: int
    n: int
    same: bool = False


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """batches: solved by Gauss–Newton from `starts` starts, until all images are found, in up to `iterations` · shown:
    the one whose images are shown · local_steps: of a client, each of step_size, on `client` · counted: batch sizes
    whose labels are inferred, from `draws` batches each · epochs: of the trained network there · separated: batch sizes
    whose first-layer gradient is separated, of a network of `width` · mixed: batch sizes for eq. (4)."""

    batches: tuple[Batch, ...]
    shown: Batch
    starts: int = 5
    iterations: int = 100
    local_steps: tuple[int, ...] = (1, 2, 5, 10, 20)
    step_size: float = 0.1
    client: Batch = Batch(side=8, channels=6, n=2)
    counted: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    draws: int = 20
    epochs: int = 5
    separated: tuple[int, ...] = (8, 16, 32, 64, 128)
    width: int = 1000
    mixed: tuple[int, ...] = (2, 3, 4)


def _grid(side: int, channels: int, ns: tuple[int, ...], same: tuple[int, ...] = ()) -> tuple[Batch, ...]:
    return (
        *(Batch(side=side, channels=channels, n=n) for n in ns),
        *(Batch(side=side, channels=channels, n=n, same=True) for n in same),
    )


SIZES = {
    "smoke": Sizes(
        batches=(*_grid(8, 6, (1, 2), (2,)), Batch(side=4, channels=2, n=4)),
        shown=Batch(side=8, channels=6, n=2),
        starts=1,
        iterations=20,
        local_steps=(1, 3),
        counted=(4, 16),
        draws=2,
        epochs=1,
        separated=(8,),
        width=64,
        mixed=(2,),
    ),
    "laptop": Sizes(
        batches=(*_grid(8, 6, (1, 2, 4, 8, 10, 16), (2, 4)), Batch(side=16, channels=6, n=4)),
        shown=Batch(side=16, channels=6, n=4),
        starts=3,
    ),
    "paper": Sizes(
        batches=(
            *_grid(8, 6, (1, 2, 4, 6, 8, 9, 10, 12, 16, 32, 64), (2, 4, 8)),
            *_grid(8, 24, (1, 2, 4, 6, 8, 9, 10, 12, 16, 32, 64), (2, 4, 8)),
            *_grid(32, 6, (1, 2, 4), (2,)),
        ),
        shown=Batch(side=32, channels=6, n=4),
        separated=(8, 16, 32, 64, 128, 256),
    ),
}
