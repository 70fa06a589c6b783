"""Patches of the bundled photographs: where they come from, which part they play, and how they are
made smaller.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from PIL import Image

from recon.images import photos
from recon.images.pool import PARTS


def photo_grids():
    """For each photograph its class and {patch: column}, by cutting it up once more."""
    for name, (label, package, folder) in photos.PHOTOGRAPHS.items():
        with as_file(files(package) / folder / name) as path, Image.open(path) as file:
            photo = file.convert("RGB")
        half = np.asarray(photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.BOX))
        grid = {}
        for top in range(0, half.shape[0] - 31, 32):
            for left in range(0, half.shape[1] - 31, 32):
                patch = half[top : top + 32, left : left + 32].transpose(2, 0, 1)
                grid[patch.tobytes()] = left
        yield label, grid


def test_photos_of_two_partitions_never_share_a_column(photo_pool):
    count = 0
    for expected, grid in photo_grids():
        columns = {part: set() for part in PARTS}
        for image, part, label in zip(
            photo_pool.images, photo_pool.part, photo_pool.y, strict=True
        ):
            if image.tobytes() in grid:
                columns[str(part)].add(grid[image.tobytes()])
                assert label == expected
                count += 1
        train, init, held_out = columns.values()
        assert max(train) < min(init) and max(init) < min(held_out)
    distinct = {image.tobytes() for image in photo_pool.images}
    assert count == len(photo_pool.images) == len(distinct)
    assert (photo_pool.images.mean(axis=1).std(axis=(1, 2)) >= photos.MIN_CONTRAST).all()
