"""How a test kills a run at one of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from companion.store import checkpoints
from recon.optim import loop


@contextmanager
def killed_after(saves: int) -> Iterator[None]:
    """What runs inside takes a checkpoint at every step, is interrupted at the one after so many,
    and ends by that.
    """
    left, save = iter(range(saves)), checkpoints.save_tensors

    def save_or_die(*state) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        save(*state)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop.time, "monotonic", iter(range(0, 10**6, 100)).__next__)
        patch.setattr(checkpoints, "save_tensors", save_or_die)
        yield
