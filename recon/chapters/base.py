"""What every experiment shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from recon.images.pools import Dataset, ImagePool, partition, partitions
from recon.store.results import Outcome, Result


@dataclass(frozen=True)
class Context:
    """What an experiment runs with: images, device, seed, a folder for checkpoints of unfinished work, and what a sweep
    of independent runs may use: processes, or the Dask workers of a scheduler.  The seed draws everything: images,
    starts and weights."""

    pool: ImagePool
    device: torch.device
    seed: int
    checkpoints: Path
    workers: int = 1
    scheduler: str | None = None

    def generator(self, offset: int = 0) -> torch.Generator:
        """A fresh generator on the CPU: `seed + 1000 · offset`, so that draws do not depend on each other's order."""
        return torch.Generator().manual_seed(self.seed + 1000 * offset)

    def dataset(self, n_train: int, n_held_out: int = 200) -> Dataset:
        """The partitions of this experiment, drawn by its seed: see `recon.images.pools.partition`."""
        return partition(self.pool, n_train, n_held_out=n_held_out, seed=self.seed)

    def datasets(self, n_train: int, sets: int, n_held_out: int = 200) -> list[Dataset]:
        """`sets` of them with training images of their own: see `recon.images.pools.partitions`."""
        return partitions(self.pool, n_train, sets, n_held_out=n_held_out, seed=self.seed)


@dataclass(frozen=True)
class Experiment:
    """An entry of `recon list`.

    run: (config, context) -> Outcome · configs: profile -> config · figures: file stem -> (Result -> Figure).
    """

    name: str
    chapter: str
    section: str
    summary: str
    cost: dict[str, str]
    configs: dict[str, Any]
    run: Callable[[Any, Context], Outcome]
    figures: dict[str, Callable[[Result], Any]]
