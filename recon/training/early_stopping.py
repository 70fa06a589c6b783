"""When to stop: as soon as the accuracy on validation images no longer rises."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from recon.training.recipes import accuracy

PATIENCE = 10  # checks, which `recon.training.recipes.train` makes every 25 steps


def early_stopping(x: Tensor, y: Tensor, patience: int = PATIENCE) -> Callable[[nn.Module], bool]:
    """True once the accuracy on images x (n, d) with classes y (n,) has not risen for `patience` checks.

    For `stop` of `recon.training.recipes.train`.  It remembers, so every training needs one of its own.
    """
    seen = [0.0]

    def stop(module: nn.Module) -> bool:
        seen.append(accuracy(module, x, y))
        module.train()
        return len(seen) > patience and max(seen[-patience:]) <= max(seen[:-patience])

    return stop
