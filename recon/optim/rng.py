"""Random numbers by name: every draw has a generator of its own, which no other draw can move."""

import hashlib

import torch


def named(seed: int, name: str, index: int = 0) -> torch.Generator:
    """A fresh generator on the CPU for the draw `name`, or its `index`-th repetition: its seed is a
    hash of all three.

    >>> first, again = named(0, "a"), named(0, "a")
    >>> torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=again))
    True
    >>> torch.equal(torch.rand(3, generator=named(0, "a")), torch.rand(3, generator=named(0, "a", 1)))
    False
    """  # noqa: E501
    digest = hashlib.sha256(f"{seed}\0{name}\0{index}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
