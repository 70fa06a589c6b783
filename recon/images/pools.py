"""TRANSITION: the modules of this folder under the old name of all of them."""

# ruff: noqa: F401
from __future__ import annotations

from pathlib import Path

from recon.images.cifar import INDEX_RANGES, SUBSET_FILE, SUBSET_SHA256, TORCHVISION_FOLDER, VEHICLES
from recon.images.files import DOWNLOAD_TIMEOUT_S, cache_folder
from recon.images.partitions import Dataset, Partition, centre, partition, partitions, uncentre
from recon.images.photos import MIN_CONTRAST, PHOTOGRAPHS
from recon.images.pool import ImagePool
from recon.images.registry import REGISTRY, SOURCES, load_pool


def load(source: str, n_train: int, n_held_out: int = 200, root: str | Path | None = None, seed: int = 0) -> Dataset:
    """`load_pool` and `partition` in one call."""
    return partition(load_pool(source, root), n_train, n_held_out=n_held_out, seed=seed)
