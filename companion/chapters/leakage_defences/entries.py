"""A gradient of which some entries were left out."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import Dense, by_columns


@dataclass(frozen=True)
class Part:
    """Some entries of a gradient only, as compression leaves them.  kept (p,): which, and the adversary knows which."""

    batch: BatchSystem
    kept: Tensor

    @property
    def start(self) -> Tensor:
        """The batch's."""
        return self.batch.start

    @property
    def target(self) -> Tensor:
        """The entries that are left."""
        return self.batch.target[self.kept]

    def __call__(self, x: Tensor) -> Tensor:
        """Of h(x)."""
        return self.batch(x)[self.kept]

    def linear(self, x: Tensor) -> Dense:
        """With their whole Jacobian: for small networks."""
        return Dense(by_columns(self, x).mT)
