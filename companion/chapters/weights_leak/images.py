"""The images of chapter 8: CIFAR-10 at several sizes, photographs, and data that are neither."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.separation_common import other_rows
from recon.images.bundle import Bundle
from recon.images.photos import at_side, patches

MOST_FOR_VALIDATION = 500


@dataclass(frozen=True)
class Task:
    """Images, whose `init` are others that nobody trained on; the classes y (n,) of those for training, and others_y of
    the others, of which the first are for validation and the rest for testing."""

    images: Bundle
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
        return self.images.init[:first], self.others_y[:first]

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """Images and classes that nobody trained on or validated with."""
        first = self._validation_size()
        return self.images.init[first:], self.others_y[first:]

    def _validation_size(self) -> int:
        return min(MOST_FOR_VALIDATION, len(self.images.init) // 2)


def photograph_images(n: int, side: int, device: torch.device) -> Bundle:
    """n patches of the bundled photographs' first two thirds, alternating between the classes while both last, against
    those of the last third (fewer), which serve as others too."""
    x, y, held_out = patches()
    x = at_side(x, side)
    shape, x = tuple(x.shape[1:]), x.flatten(1)
    rows = (~held_out).nonzero()[:, 0]
    turn = torch.cat([torch.arange(int((y[rows] == label).sum())) for label in (0, 1)])
    rows = torch.cat([rows[y[rows] == label] for label in (0, 1)])[turn.argsort(stable=True)][:n]
    mean = x[rows].mean(0)
    train, others = ((part - mean).to(device) for part in (x[rows], x[held_out]))
    return Bundle.of_tensors(train, others, others, shape, (y[rows], y[held_out], y[held_out]), mean.to(device))


def pool_task(context: Context, n: int, classes: int) -> Task:
    """The pool's images in two classes, or in all that it has."""
    images = context.images(n)
    images = images.with_others(context.pool, other_rows(context, images.train_index))
    if classes == 2:
        return Task(images, images.y.long().cpu(), images.init_y.long().cpu())
    return Task(images, images.train_labels, images.init_labels)


def data_task(name: str, n: int, context: Context) -> Task:
    """Other data than the pool's: "digits" (scikit-learn's, 8 × 8, ten classes), "tabular" (its table of breast
    cancers, 30 columns, standardised), or the bundled photographs."""
    if name not in ("digits", "tabular"):
        images = photograph_images(n, context.pool.shape[1], context.device)
        return Task(images, images.y.cpu(), images.held_out_labels)
    found = load_digits() if name == "digits" else load_breast_cancer()
    x, y = torch.from_numpy(found.data).float(), torch.from_numpy(found.target)
    x = x / 16 if name == "digits" else (x - x.mean(0)) / x.std(0)
    order = torch.randperm(len(x), generator=context.stream("separation.order"))
    x, y = (x[order] - x[order[:n]].mean(0)).to(context.device), y[order]
    shape = tuple(found.images.shape[1:]) if name == "digits" else tuple(x.shape[1:])
    images = Bundle.of_tensors(x[:n], x[n:], x[n : 2 * n], (1, *shape) if name == "digits" else shape)
    return Task(images, y[:n], y[n:])
