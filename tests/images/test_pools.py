"""Every pool by its name, and what all of them promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recon.images.partitions import partition
from recon.images.pool import PARTS, ImagePool, thirds
from recon.images.registry import load_pool


@pytest.mark.parametrize("name", ["imagenet", "folder", "folder:", "digits:x", "", "folder:PATH"])
def test_other_names_are_refused(name, one_sentence):
    one_sentence(lambda: load_pool(name), "unknown data source|there is no folder PATH")


@pytest.mark.parametrize("name", ["photos", "digits"])
def test_bundled_pools(name, monkeypatch):
    monkeypatch.setenv("RECON_DATA", "~no-such-user/x")  # they need no files
    pool = load_pool(name)
    assert pool.name == name and "not CIFAR-10" in pool.notice
    assert pool.images.dtype == np.uint8 and pool.shape == pool.images.shape[1:]
    columns = (pool.images, pool.labels, pool.y, pool.part, np.unique(pool.index))
    assert {len(column) for column in columns} == {len(pool)}
    assert set(pool.part) == set(PARTS) and set(pool.y) == {0, 1}
    drawn = partition(pool, 20, n_held_out=20, seed=1)
    assert drawn.shape == pool.shape
    for part in (drawn.train, drawn.init, drawn.held_out):
        rows = [np.flatnonzero(pool.index == int(i))[0] for i in part.index]
        assert torch.equal(part.x, pool.pixels(rows))
        assert part.labels.tolist() == pool.labels[rows].tolist()
        assert part.y.tolist() == pool.y[rows].tolist()


def test_pixels_are_divided_by_255():
    images = np.random.default_rng(0).integers(0, 256, (4, 1, 2, 3)).astype(np.uint8)
    y = np.array([0, 0, 1, 0])
    pool = ImagePool("toy", images, y, y, np.arange(4), np.full(4, "train"))
    expected = torch.tensor(images[[2, 0]].tolist(), dtype=torch.float32) / 255
    assert torch.equal(pool.pixels([2, 0]), expected) and pool.shape == (1, 2, 3)


def test_thirds_are_dealt_and_not_cut():
    part = thirds(1000)
    assert sorted((part == name).sum() for name in PARTS) == [333, 333, 334]
    assert all(abs(np.flatnonzero(part == name).mean() - 500) < 60 for name in PARTS)
    assert np.array_equal(part, thirds(1000))


def test_a_pool_without_a_class_in_a_part(one_sentence):
    images, y = np.zeros((6, 1, 2, 2), np.uint8), np.array([0, 0, 0, 1, 1, 0])
    part = np.array(["train", "init", "held_out"] * 2)
    pool = ImagePool("toy", images, y, y, np.arange(6), part)
    one_sentence(lambda: partition(pool, 2), "toy holds too few images")
