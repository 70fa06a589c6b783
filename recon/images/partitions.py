"""Which images play which part: balanced partitions of a pool, drawn by the seed.

`partition` draws by a pool's index and the seed, so that both CIFAR-10 sources give identical
experiments and a spread over seeds is one over images. Pixels are float32 in [0, 1], layout N C H
W; flat images are in the same C H W order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError
from recon.images.pool import PARTS, ImagePool, Shape


@dataclass(frozen=True)
class Partition:
    """
    Attributes:
        x: (n, C, H, W) float32 in [0, 1].
        y: (n,) float32 in {0, 1}.
        index: (n,) int64 in the source.
        labels: (n,) int64, the class in 0 … K − 1.
    """

    x: Tensor
    y: Tensor
    index: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.y)

    @property
    def flat(self) -> Tensor:
        """Images as rows, (n, d) with d = C H W."""
        return self.x.flatten(1)


@dataclass(frozen=True)
class Dataset:
    """The three disjoint partitions of an experiment, balanced over the two classes.

    Attributes:
        train: what the network is trained on.
        init: the "CIFAR partition" of start (c), with the labels of `train` row by row.
        held_out: never seen by training or attack, for null baselines only.
    """

    train: Partition
    init: Partition
    held_out: Partition

    @property
    def shape(self) -> Shape:
        """(C, H, W)."""
        channels, height, width = self.train.x.shape[1:]
        return channels, height, width

    def swapped(self) -> Dataset:
        """`train` and `init` in each other's place: what a shadow network is trained on, and starts
        from.
        """
        return replace(self, train=self.init, init=self.train)


def partition(pool: ImagePool, n_train: int, n_held_out: int = 200, seed: int = 0) -> Dataset:
    """Draw balanced partitions by `seed`: n/2 of class 0, then n/2 of class 1, each in file order.

    n_train (of `train` and of `init`), n_held_out: even counts of images. Where the pool holds
    fewer (the bundled photographs do), every class is cut to what there is. Raises ReconError for
    odd or non-positive counts, a negative seed, and a pool that lacks a class in a part.

    Seed s takes the s-th block of n/2 images of each class and part, so seed 0 the first in the
    file. Sets of the same size at different seeds are disjoint while they last; from then on a seed
    takes a random subset. Where the pool's parts are interchangeable (CIFAR-10), training sets go
    on into the other ranges, from their far ends, but for as many images as `init` and `held_out`
    have at seed 0. The three sets of one seed are always disjoint.
    """
    return partitions(pool, n_train, 1, n_held_out, seed)[0]


def partitions(
    pool: ImagePool, n_train: int, sets: int, n_held_out: int = 200, seed: int = 0
) -> list[Dataset]:
    """`sets` data sets as by `partition`, with training sets of their own; `init` and `held_out`
    are common to all. The training sets are disjoint from each other, and from those of other
    seeds, while images last: where the pool does not hold `sets` of them, each is a block or a
    random subset of its own. The first of seed 0 is `partition`'s.
    """
    if seed < 0:
        raise ReconError(f"the seed must not be negative, not {seed}")
    counts = _counts(pool, n_train, n_held_out)
    rows = [
        _rows(pool, label, {part: n // 2 for part, n in counts.items()}, sets, seed)
        for label in (0, 1)
    ]

    def draw(name: str) -> Partition:
        chosen = np.concatenate([of_class[name] for of_class in rows])
        y, index, labels = (
            torch.from_numpy(array[chosen]) for array in (pool.y, pool.index, pool.labels)
        )
        return Partition(pool.pixels(chosen), y.float(), index, labels)

    init, held_out = draw("init"), draw("held_out")
    return [Dataset(draw(f"train {k}"), init, held_out) for k in range(sets)]


def _counts(pool: ImagePool, n_train: int, n_held_out: int) -> dict[str, int]:
    """Images of each part, cut to what the pool holds there: the same at every seed."""
    counts = {"train": n_train, "init": n_train, "held_out": n_held_out}
    for name, n in counts.items():
        if n <= 0 or n % 2:
            raise ReconError(f"the number of {name} images must be even and positive, not {n}")
        counts[name] = min(
            n, *(2 * int(((pool.part == name) & (pool.y == label)).sum()) for label in (0, 1))
        )
    # row i of `init` replaces that of `train`
    counts["train"] = counts["init"] = min(counts["train"], counts["init"])
    if not all(counts.values()):
        raise ReconError(
            f"the pool {pool.name} holds too few images: every part needs one of each class"
        )
    return counts


def _rows(
    pool: ImagePool, label: int, sizes: dict[str, int], sets: int, seed: int
) -> dict[str, np.ndarray]:
    """Rows of one class in the pool, ascending: "train 0", "train 1", …, "init", "held_out";
    `sizes` of each.
    """
    members = {part: np.flatnonzero((pool.part == part) & (pool.y == label)) for part in sizes}
    order = members["train"]
    if pool.interchangeable:
        # the other parts from their far ends in turn: all but the sets that seed 0 has
        spare = [members[part][sizes[part] :][::-1] for part in PARTS[1:]]
        turn = np.argsort(np.concatenate([np.arange(len(rows)) for rows in spare]), kind="stable")
        order = np.append(order, np.concatenate(spare)[turn])
    random = np.random.default_rng([seed, label])
    size = sizes["train"]
    if sets * size <= len(order):  # disjoint
        training = np.split(_block(order, sets * size, seed, random), sets)
    else:
        training = [_block(order, size, sets * seed + k, random) for k in range(sets)]
    taken = np.concatenate(training)
    rows = {f"train {k}": np.sort(block) for k, block in enumerate(training)}
    for part in PARTS[1:]:
        rows[part] = np.sort(_block(members[part], sizes[part], seed, random, taken))
    return rows


def _block(
    order: np.ndarray,
    size: int,
    k: int,
    random: np.random.Generator,
    taken: np.ndarray | None = None,
) -> np.ndarray:
    """The k-th `size` of `order`, or where some are missing or taken, a random `size` of all that
    are not taken.
    """
    free = ~np.isin(order, [] if taken is None else taken)
    block = slice(k * size, (k + 1) * size)
    if free[block].sum() == size:
        return order[block]
    return random.permutation(order[free])[:size]
