"""Tables of metrics with other values, and bundles of any images."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from companion.store.record import Record
from recon.images.bundle import PER_IMAGE, Bundle


def replace(table: Any, **changes: Any) -> Any:
    """A copy with other values of these names: of a record, or of a dataclass."""
    if isinstance(table, Record):
        return type(table)({**table, **changes})
    return dataclasses.replace(table, **changes)


def bundle_of(train: Tensor, init: Tensor, held_out: Tensor, shape: tuple[int, ...]) -> Bundle:
    """A bundle of flat images as they are: nothing subtracted, every class 0, indices the row
    numbers.
    """
    parts = (train, init, held_out)
    y, labels = (
        [x.new_zeros(len(x)) for x in parts],
        [torch.zeros(len(x), dtype=torch.int64) for x in parts],
    )
    columns = (*parts, *y, *labels, *(torch.arange(len(x)) for x in parts))
    return Bundle(
        **dict(zip(PER_IMAGE, columns, strict=True)), mean=torch.zeros_like(train[0]), shape=shape
    )
