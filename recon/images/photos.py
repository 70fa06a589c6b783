"""Square patches of the photographs that scikit-learn and scikit-image ship: the pool that is always there, and the
same scenes at full resolution, for images of several numbers of pixels."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import as_file
from importlib.resources import files as package_files

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from recon.errors import ReconError
from recon.images.pool import PARTS, ImagePool

#: photograph -> (class, where its package keeps it); built = 0, living = 1
PHOTOGRAPHS = {
    "china.jpg": (0, "sklearn.datasets", "images"),
    "coffee.png": (0, "skimage", "data"),
    "rocket.jpg": (0, "skimage", "data"),
    "motorcycle_left.png": (0, "skimage", "data"),
    "flower.jpg": (1, "sklearn.datasets", "images"),
    "astronaut.png": (1, "skimage", "data"),
    "chelsea.png": (1, "skimage", "data"),
}
PATCH = 32
SIDE = 96  # of a patch at full resolution
MIN_CONTRAST = 12.0  # standard deviation of grey levels in 0..255 below which a patch is sky or wall


def load() -> ImagePool:
    """32 × 32 colour patches of the photographs, halved in size: built against living.  Non-overlapping patches;
    columns of patches are dealt to the partitions in three contiguous bands per photograph, so that training, init and
    held-out patches are disjoint in space."""
    images, labels, parts = [], [], []
    for label, photo in photographs(halved=True):
        for band, patch in tiles(photo, PATCH):
            if patch.mean(axis=0).std() >= MIN_CONTRAST:
                images.append(patch)
                labels.append(label)
                parts.append(PARTS[band])
    y = np.asarray(labels, dtype=np.int64)
    return ImagePool(
        name="photos",
        images=np.stack(images),
        labels=y,
        y=y,
        index=np.arange(len(y)),
        part=np.asarray(parts),
        y_names=("built", "living"),
        notice="Executed on bundled photographs, not CIFAR-10.",
    )


@cache
def patches() -> tuple[Tensor, Tensor, Tensor]:
    """Non-overlapping patches (N, 3, 96, 96) in [0, 1], their class (N,) (built 0, living 1), and whether each is in
    the held-out third (N,): the last third of the columns of patches of its photograph."""
    found = [(patch, label, band == 2) for label, photo in photographs() for band, patch in tiles(photo, SIDE)]
    images, labels, held_out = zip(*found, strict=True)
    return torch.from_numpy(np.stack(images)).float() / 255, torch.tensor(labels), torch.tensor(held_out)


def at_side(images: Tensor, side: int) -> Tensor:
    """Images (n, C, H, H) averaged down to (n, C, side, side); ReconError for a side above H."""
    if not 1 <= side <= images.shape[-1]:
        raise ReconError(f"images of side {images.shape[-1]} cannot be made {side} pixels wide")
    return F.interpolate(images, size=(side, side), mode="area") if side < images.shape[-1] else images


def photographs(halved: bool = False) -> Iterator[tuple[int, np.ndarray]]:
    """The class and the pixels (H, W, 3) uint8 of every photograph, at full resolution or averaged over 2 × 2."""
    for name, (label, package, folder) in PHOTOGRAPHS.items():
        with as_file(package_files(package) / folder / name) as path, Image.open(path) as file:
            photo = file.convert("RGB")
        if halved:
            photo = photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.BOX)
        yield label, np.asarray(photo)


def tiles(photo: np.ndarray, side: int) -> Iterator[tuple[int, np.ndarray]]:
    """Patches (3, side, side) of a photograph (H, W, 3), column by column, each with its third 0, 1, 2 from the left;
    what is left over at the right and the bottom is dropped."""
    columns = photo.shape[1] // side
    for column in range(columns):
        for row in range(photo.shape[0] // side):
            patch = photo[row * side : (row + 1) * side, column * side : (column + 1) * side]
            yield 3 * column // columns, patch.transpose(2, 0, 1)
