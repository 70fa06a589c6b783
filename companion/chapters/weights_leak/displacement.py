"""How far a first layer moved from its start, and how much of that start it still holds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.separation import start_left


@dataclass(frozen=True)
class Displacement:
    """moved: ‖W1 − W1(0)‖ / ‖W1(0)‖ · start_left: κ, see `recon.attacks.separation.start_left` · added:
    ‖W1 − κ W1(0)‖ / ‖W1(0)‖, what training added."""

    moved: float
    start_left: float
    added: float

    @staticmethod
    def of(w1: Tensor, w1_init: Tensor) -> Displacement:
        """Of a layer (h, d) and its start (h, d); ReconError for a start of zeros."""
        left, size = start_left(w1, w1_init), w1_init.norm()
        return Displacement(
            moved=((w1 - w1_init).norm() / size).item(),
            start_left=left,
            added=((w1 - left * w1_init).norm() / size).item(),
        )


def disturbed(w: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """w plus Gaussian noise of σ times its root mean square; generator: on the CPU."""
    noise = torch.randn(w.shape, generator=generator).to(w)
    return w + sigma * w.square().mean().sqrt() * noise
