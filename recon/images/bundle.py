"""The images of one experiment as tensors on a device: trained on, started from, held out.

One noun for all chapters and the audit.  Truth: attacks never get it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError
from recon.images.partitions import Dataset, Partition
from recon.images.pool import PARTS, ImagePool


@dataclass(frozen=True)
class Bundle:
    """Three sets of flat images in one dtype on one device, the classes they have, and what was
    subtracted from them. Every set is sorted by y, both classes alike in number, unless it comes
    from `with_others`.

    Attributes:
        train (n, d), d = C H W: what the network is trained on.
        init (k, d): the start partition, row by row of the classes of `train`; nobody trains on it,
            so it serves nulls as "other images".
        held_out (h, d): never seen by training or attack, for nulls only.
        y, init_y, held_out_y: their classes in {0, 1} as training takes them, in the images' dtype
            and on their device · …_labels: the classes 0 … K − 1 · …_index: the numbers of the
            images in their pool, both int64 on the CPU.
        mean (d,): what was subtracted from every image, the mean of `train` if centred, else zeros.
        shape: (C, H, W).
    """

    train: Tensor
    init: Tensor
    held_out: Tensor
    y: Tensor
    init_y: Tensor
    held_out_y: Tensor
    train_labels: Tensor
    init_labels: Tensor
    held_out_labels: Tensor
    train_index: Tensor
    init_index: Tensor
    held_out_index: Tensor
    mean: Tensor
    shape: tuple[int, ...]

    @staticmethod
    def of(
        data: Dataset,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        centred: bool = True,
    ) -> Bundle:
        """The partitions of an experiment; for a shadow network those of `data.swapped()`.

        Args:
            centred: subtract the mean of `data.train`, in float32 on the CPU, so that devices and
                dtypes agree.
        """
        mean = data.train.flat.mean(0) if centred else torch.zeros_like(data.train.flat[0])
        columns: dict[str, Any] = {}
        for name in PARTS:
            part: Partition = getattr(data, name)
            x = part.flat - mean if centred else part.flat
            columns[name] = x.to(device, dtype)
            columns["y" if name == "train" else f"{name}_y"] = part.y.to(device, dtype)
            columns[f"{name}_labels"] = part.labels
            columns[f"{name}_index"] = part.index
        return Bundle(**columns, mean=mean.to(device, dtype), shape=data.shape)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def dim(self) -> int:
        """d = C H W."""
        return self.train.shape[1]

    def pixels(self, x: Tensor) -> Tensor:
        """Images (m, d) as they were before centring, (m, C, H, W): for showing, and for SSIM."""
        return (x + self.mean.to(x)).unflatten(-1, self.shape)

    def take(self, start: int, stop: int) -> Bundle:
        """Images start … stop − 1 of each class of every set, 2 (stop − start) a set; `mean` stays
        as it was. ReconError where a set does not hold as many.
        """
        half = min(map(len, (self.train, self.init, self.held_out))) // 2
        if not 0 <= start <= stop <= half:
            raise ReconError(
                f"images {start} … {stop - 1} of each class are wanted, and there are {half}"
            )

        def part(x: Tensor) -> Tensor:
            return torch.cat([x[start:stop], x[len(x) // 2 :][start:stop]])

        columns: dict[str, Any] = {name: part(getattr(self, name)) for name in PER_IMAGE}
        return replace(self, **columns)

    def with_others(self, pool: ImagePool, rows: np.ndarray | Tensor) -> Bundle:
        """`init` replaced by these rows (k,) of the pool, minus the same mean: more "other images"
        for nulls.
        """
        x = (pool.pixels(rows).flatten(1) - self.mean.cpu()).to(self.train)
        y, labels, index = (
            torch.from_numpy(array[np.asarray(rows)]) for array in (pool.y, pool.labels, pool.index)
        )
        return replace(self, init=x, init_y=y.to(self.y), init_labels=labels, init_index=index)


#: the fields of a `Bundle` with a row an image
PER_IMAGE = tuple(field.name for field in fields(Bundle) if field.name not in ("mean", "shape"))
