"""Square patches of the bundled photographs at full resolution: the same scenes at several numbers of pixels."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from recon.errors import ReconError
from recon.images.pools import PHOTOGRAPHS

SIDE = 96


@cache
def patches() -> tuple[Tensor, Tensor, Tensor]:
    """Non-overlapping patches (N, 3, 96, 96) in [0, 1], their class (N,) (built 0, living 1), and whether each is in
    the held-out third (N,): the last third of the columns of patches of its photograph."""
    images, labels, held_out = [], [], []
    for name, (label, package, folder) in PHOTOGRAPHS.items():
        with as_file(files(package) / folder / name) as path, Image.open(path) as file:
            photo = np.asarray(file.convert("RGB"))
        columns = photo.shape[1] // SIDE
        for column in range(columns):
            for row in range(photo.shape[0] // SIDE):
                patch = photo[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE]
                images.append(patch.transpose(2, 0, 1))
                labels.append(label)
                held_out.append(3 * column // columns == 2)
    return torch.from_numpy(np.stack(images)).float() / 255, torch.tensor(labels), torch.tensor(held_out)


def at_side(images: Tensor, side: int) -> Tensor:
    """Images (n, C, H, H) averaged down to (n, C, side, side); ReconError for a side above H."""
    if not 1 <= side <= images.shape[-1]:
        raise ReconError(f"images of side {images.shape[-1]} cannot be made {side} pixels wide")
    return F.interpolate(images, size=(side, side), mode="area") if side < images.shape[-1] else images
