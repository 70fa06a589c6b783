"""Patches of the bundled photographs: where they come from, which are held out, and how they are made smaller."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import pytest
import torch
from PIL import Image

from recon.errors import ReconError
from recon.images.photographs import SIDE, at_side, patches
from recon.images.pools import PHOTOGRAPHS


def test_shapes():
    images, labels, held_out = patches()
    assert images.shape == (len(labels), 3, SIDE, SIDE) and images.dtype == torch.float32
    assert 0 <= images.min() < 0.01 and 0.99 < images.max() <= 1
    assert set(labels.tolist()) == {0, 1} and held_out.dtype == torch.bool and len(held_out) == len(labels)
    assert (~held_out).sum() >= 100  # as many as the experiments train on
    assert all(((labels == label) & held_out).any() for label in (0, 1))


def test_patches_tile_every_photograph_and_the_last_third_is_held_out():
    images, labels, held_out = patches()
    first = 0
    for name, (label, package, folder) in PHOTOGRAPHS.items():
        with as_file(files(package) / folder / name) as path, Image.open(path) as file:
            photo = np.asarray(file.convert("RGB"))
        rows, columns = photo.shape[0] // SIDE, photo.shape[1] // SIDE
        part = slice(first, first + rows * columns)
        first += rows * columns
        tiles = (255 * images[part]).round().byte().unflatten(0, (columns, rows)).permute(1, 3, 0, 4, 2).numpy()
        assert np.array_equal(tiles.reshape(rows * SIDE, columns * SIDE, 3), photo[: rows * SIDE, : columns * SIDE])
        assert (labels[part] == label).all()
        expected = [3 * column >= 2 * columns for column in range(columns) for _ in range(rows)]
        assert held_out[part].tolist() == expected  # whole columns: no pixel, nor a neighbour's, is in both parts
    assert first == len(images)


@pytest.mark.parametrize("side", [16, 32, 48])
def test_smaller_images_are_block_means(side):
    images = patches()[0][:5]
    block = SIDE // side
    expected = images.numpy().reshape(5, 3, side, block, side, block).mean((3, 5))
    assert np.allclose(at_side(images, side).numpy(), expected, atol=1e-6)


def test_other_sides():
    images = patches()[0][:3]
    assert torch.equal(at_side(images, SIDE), images)
    one = at_side(images, 1)
    assert one.shape == (3, 3, 1, 1) and torch.allclose(one[..., 0, 0], images.mean((2, 3)), atol=1e-5)
    assert at_side(images, 64).shape == (3, 3, 64, 64)


@pytest.mark.parametrize("side", [SIDE + 1, 200, 0, -3])
def test_impossible_sides(side):
    with pytest.raises(ReconError, match="pixels wide"):
        at_side(torch.zeros(1, 3, SIDE, SIDE), side)
