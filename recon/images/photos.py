"""Square patches of the photographs that scikit-learn and scikit-image ship: the pool that is
always there.
"""

from collections.abc import Iterator
from importlib.resources import as_file
from importlib.resources import files as package_files
from importlib.util import find_spec

import numpy as np
from PIL import Image

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
# standard deviation of grey levels in 0..255 below which a patch is sky or wall
MIN_CONTRAST = 12.0


def load() -> ImagePool:
    """32 × 32 colour patches of the photographs, halved in size: built against living.
    Non-overlapping patches; columns of patches are dealt to the partitions in three contiguous
    bands per photograph, so that training, init and held-out patches are disjoint in space.
    """
    images, labels, parts = [], [], []
    for label, photo in photographs():
        rows, columns = (side // PATCH for side in photo.shape[:2])
        whole = photo[: rows * PATCH, : columns * PATCH]
        grid = whole.reshape(rows, PATCH, columns, PATCH, 3).transpose(2, 0, 4, 1, 3)
        for column, patches in enumerate(grid):
            for patch in patches:
                if patch.mean(axis=0).std() >= MIN_CONTRAST:
                    images.append(patch)
                    labels.append(label)
                    parts.append(PARTS[3 * column // columns])
    y = np.asarray(labels, dtype=np.int64)
    return ImagePool(
        name="photos",
        images=np.stack(images),
        labels=y,
        y=y,
        index=np.arange(len(y)),
        part=np.asarray(parts),
        notice="Executed on bundled photographs, not CIFAR-10.",
    )


def photographs() -> Iterator[tuple[int, np.ndarray]]:
    """The class and the pixels (H, W, 3) uint8 of every photograph, averaged over 2 × 2. ReconError
    without scikit-image.
    """
    if find_spec("skimage") is None:
        raise ReconError(
            "some of the photographs come with scikit-image, which is not installed: pip install"
            " scikit-image"
        )
    for name, (label, package, folder) in PHOTOGRAPHS.items():
        with as_file(package_files(package) / folder / name) as path, Image.open(path) as file:
            photo = file.convert("RGB")
        yield (
            label,
            np.asarray(photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.BOX)),
        )
