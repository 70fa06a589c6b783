"""The older experiments' random streams by number: every draw has a name and a generator of its own.

A stream's number is arbitrary, but fixed: published results depend on it, and on all of the table, which therefore does
not grow.  Newer experiments draw by name alone, see `recon.optim.rng.named`.
"""

from __future__ import annotations

import difflib

import torch

from recon.errors import ReconError

#: name -> (number, stride): index i of a stream is number + stride · i.  The prefix says whose draws must not collide.
STREAMS: dict[str, tuple[int, int]] = {
    "linear.start": (1, 0),
    "collapse.weights": (1, 0),
    "collapse.noise": (2, 0),
    "affine.start": (1, 0),
    "affine.other_labels": (2, 0),
    "hidden.weights": (100, 1),
    "hidden.inner_start": (200, 1),
    "hidden.start": (300, 1),
    "kkt.weights": (1, 10),
    "kkt.attack": (2, 0),
    "kkt.noise": (3, 0),
    "kkt.attack_again": (20_000, 10),
    "kkt.nulls": (7000, 0),
    "separation.nulls": (70, 0),
    "separation.attack": (71, 0),
    "separation.others": (72, 0),
    "separation.weights": (80, 0),
    "separation.noise": (81, 0),
    "separation.order": (82, 0),
    "separation.convolution": (83, 0),
    "landscape.start": (1, 1),
    "landscape.weights": (10, 1),
    "landscape.directions": (20, 1),
}
SPACING = 1000  # between streams, so that small seeds do not meet each other's


def stream(seed: int, name: str, index: int = 0) -> torch.Generator:
    """A fresh generator on the CPU for the draw `name`, or its `index`-th repetition (≥ 0) where there are several.

    Draws do not depend on each other's order, nor on how many there are.  ReconError for a name that is not in
    `STREAMS`, or an index where a stream has one draw only.

    >>> first, again = stream(0, "kkt.weights"), stream(0, "kkt.weights")
    >>> torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=again))
    True
    """
    if name not in STREAMS:
        near = difflib.get_close_matches(name, STREAMS, n=1, cutoff=0.0)[0]
        raise ReconError(f"there is no random stream '{name}': did you mean '{near}'?")
    number, stride = STREAMS[name]
    if index < 0 or (index and not stride):
        raise ReconError(f"the random stream '{name}' has no draw number {index}")
    return torch.Generator().manual_seed(seed + SPACING * (number + stride * index))
