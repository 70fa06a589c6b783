"""Patches of the bundled photographs: where they come from, which part they play, and how they are
made smaller.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import pytest
import torch
from PIL import Image

from recon.errors import ReconError
from recon.images import photos
from recon.images.partitions import partition
from recon.images.pool import PARTS
from recon.images.registry import load_pool


def test_photos():
    pool = load_pool("photos")
    assert pool.images.dtype == np.uint8 and pool.images.shape[1:] == (3, 32, 32)
    assert pool.sha256 == load_pool("photos").sha256 and "not CIFAR-10" in pool.notice
    cut = partition(pool, 500)
    assert len(cut.train) == len(cut.init) < 500 and len(cut.train) >= 60
    assert cut.train.x.min() >= 0 and cut.train.x.max() <= 1
    rows = {name: {image.tobytes() for image in pool.images[pool.part == name]} for name in PARTS}
    assert not rows["train"] & rows["init"] and not rows["train"] & rows["held_out"]


def photo_grids():
    """photograph -> {patch: column}, found by cutting it up once more."""
    for name, (_, package, folder) in photos.PHOTOGRAPHS.items():
        with as_file(files(package) / folder / name) as path, Image.open(path) as file:
            photo = file.convert("RGB")
        half = np.asarray(photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.BOX))
        rows, columns = half.shape[0] // 32, half.shape[1] // 32
        grid = (
            half[: rows * 32, : columns * 32]
            .reshape(rows, 32, columns, 32, 3)
            .transpose(0, 2, 4, 1, 3)
        )
        yield name, {grid[r, c].tobytes(): c for r in range(rows) for c in range(columns)}


def test_photos_of_two_partitions_never_share_a_column():
    pool = load_pool("photos")
    found = 0
    for name, grid in photo_grids():
        columns = {part: set() for part in PARTS}
        for image, part, label in zip(pool.images, pool.part, pool.y, strict=True):
            if image.tobytes() in grid:
                columns[str(part)].add(grid[image.tobytes()])
                assert label == photos.PHOTOGRAPHS[name][0]
                found += 1
        train, init, held_out = columns.values()
        assert train and init and held_out and max(train) < min(init) and max(init) < min(held_out)
    assert found == len(pool.images) == len({image.tobytes() for image in pool.images})
    assert (pool.images.mean(axis=1).std(axis=(1, 2)) >= photos.MIN_CONTRAST).all()


def test_photos_are_cut_and_rows_of_train_and_init_share_their_labels():
    pool = load_pool("photos")
    cut = partition(pool, 500)
    assert torch.equal(cut.train.y, cut.init.y) and torch.equal(
        cut.train.y, cut.train.y.sort().values
    )
    assert cut.notice == pool.notice
    per_class = [
        ((pool.part == part) & (pool.y == label)).sum()
        for part in ("train", "init")
        for label in (0, 1)
    ]
    assert len(cut.train) == 2 * min(per_class)  # nothing that could be used was thrown away
    small = partition(pool, 20, n_held_out=10)
    assert [len(small.train), len(small.init), len(small.held_out)] == [20, 20, 10]
    # more images, the same first ones
    assert torch.equal(small.train.index[:10], cut.train.index[:10])


@pytest.mark.parametrize("side", [8, 16])
def test_smaller_images_are_block_means(side):
    images = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    block = 32 // side
    expected = images.numpy().reshape(5, 3, side, block, side, block).mean((3, 5))
    assert np.allclose(photos.at_side(images, side).numpy(), expected, atol=1e-6)


def test_other_sides():
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(photos.at_side(images, 32), images)
    one = photos.at_side(images, 1)
    assert one.shape == (3, 3, 1, 1) and torch.allclose(
        one[..., 0, 0], images.mean((2, 3)), atol=1e-5
    )
    assert photos.at_side(images, 20).shape == (3, 3, 20, 20)


@pytest.mark.parametrize("side", [33, 200, 0, -3])
def test_impossible_sides(side):
    with pytest.raises(ReconError, match="pixels wide"):
        photos.at_side(torch.zeros(1, 3, 32, 32), side)
