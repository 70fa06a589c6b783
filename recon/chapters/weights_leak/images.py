"""The images of chapter 7: CIFAR-10 at several sizes, photographs, and data that are neither."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

from recon.chapters.base import Context
from recon.chapters.common import Centred
from recon.chapters.separation_common import SHAPE, other_rows, others_of
from recon.images.photos import at_side, patches

SIDE = SHAPE[1]
MOST_FOR_VALIDATION = 500


@dataclass(frozen=True)
class Sets:
    """Flat images (n, d) minus the training mean: training, held out, others that nobody trained on, for nulls; shape
    (C, H, W), or (d,)."""

    train: Tensor
    held_out: Tensor
    others: Tensor
    shape: tuple[int, ...]

    def to(self, device: torch.device) -> Sets:
        """The same on a device."""
        return Sets(self.train.to(device), self.held_out.to(device), self.others.to(device), self.shape)


@dataclass(frozen=True)
class Task:
    """Images, the classes y (n,) of those for training, and others_y of the others, of which the first are for
    validation and the rest for testing."""

    sets: Sets
    y: Tensor
    others_y: Tensor

    @property
    def classes(self) -> int:
        """Their number, at least 2."""
        return max(2, int(self.y.max()) + 1)

    @property
    def validation(self) -> tuple[Tensor, Tensor]:
        """Images and classes with which to decide when to stop."""
        first = self._validation_size()
        return self.sets.others[:first], self.others_y[:first]

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Images and classes that nobody trained on or validated with."""
        first = self._validation_size()
        return self.sets.others[first:], self.others_y[first:]

    def _validation_size(self) -> int:
        return min(MOST_FOR_VALIDATION, len(self.sets.others) // 2)


def pool_sets(context: Context, n: int, side: int) -> tuple[Sets, Tensor]:
    """The pool's images averaged down to side × side, and labels (n,)."""
    images = Centred.of(context, n)
    parts = [images.train, images.held_out, images.init]
    small = [at_side(part.unflatten(1, SHAPE), side).flatten(1) for part in parts]
    return Sets(small[0], small[1], small[2], (SHAPE[0], side, side)), images.y


def photograph_sets(n: int, side: int) -> tuple[Sets, Tensor]:
    """n patches of the bundled photographs' first two thirds, alternating between the classes while both last, against
    those of the last third (fewer), which serve as others too."""
    x, y, held_out = patches()
    x = at_side(x, side).flatten(1)
    rows = (~held_out).nonzero()[:, 0]
    turn = torch.cat([torch.arange(int((y[rows] == label).sum())) for label in (0, 1)])
    rows = torch.cat([rows[y[rows] == label] for label in (0, 1)])[turn.argsort(stable=True)][:n]
    mean = x[rows].mean(0)
    return Sets(x[rows] - mean, x[held_out] - mean, x[held_out] - mean, (SHAPE[0], side, side)), y[rows].float()


def pool_task(context: Context, n: int, classes: int, released: str = "train") -> Task:
    """The pool's images in two classes, or in all that it has; released: see `Centred.of`."""
    images = Centred.of(context, n, released)
    sets = Sets(images.train, images.held_out, others_of(context, images.train_index, images.mean), SHAPE)
    kind = torch.from_numpy(context.pool.y if classes == 2 else context.pool.labels)
    row = {int(i): k for k, i in enumerate(context.pool.index)}
    own = torch.tensor([row[int(i)] for i in images.train_index])
    return Task(sets, kind[own], kind[other_rows(context, images.train_index)])


def data_task(name: str, n: int, context: Context) -> Task:
    """Other data than the pool's: "digits" (scikit-learn's, 8 × 8, ten classes), "tabular" (its table of breast
    cancers, 30 columns, standardised), or the bundled photographs."""
    if name not in ("digits", "tabular"):
        sets, y = photograph_sets(n, SIDE)
        _, kind, held_out = patches()
        return Task(sets.to(context.device), y, kind[held_out])
    found = load_digits() if name == "digits" else load_breast_cancer()
    x, y = torch.from_numpy(found.data).float(), torch.from_numpy(found.target)
    x = x / 16 if name == "digits" else (x - x.mean(0)) / x.std(0)
    order = torch.randperm(len(x), generator=context.stream("separation.order"))
    x, y = x[order] - x[order[:n]].mean(0), y[order]
    shape = (1, 8, 8) if name == "digits" else (x.shape[1],)
    return Task(Sets(x[:n], x[n : 2 * n], x[n:], shape).to(context.device), y[:n], y[n:])
