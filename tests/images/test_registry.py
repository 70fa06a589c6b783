"""Every pool by its name, and what all of them promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recon.images.partitions import partition
from recon.images.pool import PARTS, ImagePool, thirds
from recon.images.registry import REGISTRY, SOURCES, load_pool


def test_names():
    assert SOURCES == ("auto", *REGISTRY) == ("auto", "cifar10", "photos", "digits", "folder:PATH")


@pytest.mark.parametrize("name", ["folder", "folder:", "Folder:x", "digits:x", "", "folder:PATH"])
def test_other_names_are_refused(name, one_sentence):
    one_sentence(lambda: load_pool(name), "unknown data source|there is no folder PATH")


@pytest.mark.parametrize("name", ["photos", "digits"])
def test_bundled_pools(name, monkeypatch):
    monkeypatch.setenv("RECON_DATA", "~no-such-user/x")  # they need no files
    pool = load_pool(name)
    assert (
        pool.name == name and pool.images.dtype == np.uint8 and pool.shape == pool.images.shape[1:]
    )
    assert (
        len(pool)
        == len(pool.images)
        == len(pool.labels)
        == len(pool.y)
        == len(pool.part)
        == len(set(pool.index))
    )
    assert set(pool.part) == set(PARTS) and set(pool.y) == {0, 1} and len(pool.y_names) == 2
    assert set(pool.labels) == set(range(len(pool.class_names))) and "not CIFAR-10" in pool.notice
    assert {array.dtype for array in (pool.labels, pool.y, pool.index)} == {np.dtype("int64")}
    drawn = partition(pool, 20, n_held_out=20, seed=1)
    assert (
        drawn.shape == pool.shape
        and drawn.y_names == pool.y_names
        and drawn.class_names == pool.class_names
    )
    for part in PARTS:
        found = getattr(drawn, part)
        rows = np.array([np.flatnonzero(pool.index == int(i))[0] for i in found.index])
        assert (
            torch.equal(found.x, pool.pixels(rows))
            and found.labels.tolist() == pool.labels[rows].tolist()
        )
        assert found.y.tolist() == pool.y[rows].tolist()


def test_pixels():
    images = np.random.default_rng(0).integers(0, 256, (4, 1, 2, 3)).astype(np.uint8)
    label = np.array([2, 0, 1, 0])
    part = np.full(4, "train")
    pool = ImagePool(
        "toy", images, label, label % 2, np.array([7, 3, 9, 5]), part, ("a", "b"), ("x", "y", "z")
    )
    assert pool.shape == (1, 2, 3) and len(pool) == 4
    for dtype in (torch.float32, torch.float64):
        expected = (
            torch.tensor(
                [[[[int(v) for v in row] for row in images[r, 0]]] for r in (2, 0)], dtype=dtype
            )
            / 255
        )
        assert torch.equal(pool.pixels([2, 0], dtype), expected) and expected.dtype == dtype
    assert pool.class_names == ("x", "y", "z")
    assert ImagePool("toy", images, label, label, label, part, ("a", "b")).class_names == ("a", "b")


@pytest.mark.parametrize("n", [3, 100, 1000])
def test_thirds(n):
    part = thirds(n)
    counts = [(part == name).sum() for name in PARTS]
    assert sum(counts) == n and max(counts) - min(counts) <= 1 and np.array_equal(part, thirds(n))
    if n == 1000:  # dealt, not cut: every part from everywhere
        assert all(abs(np.flatnonzero(part == name).mean() - n / 2) < 60 for name in PARTS)


def test_a_pool_without_a_class_in_a_part(one_sentence):
    images, y = np.zeros((6, 1, 2, 2), np.uint8), np.array([0, 0, 0, 1, 1, 0])
    part = np.array(["train", "init", "held_out"] * 2)
    pool = ImagePool("toy", images, y, y, np.arange(6), part, ("a", "b"))
    one_sentence(lambda: partition(pool, 2), "toy holds too few images")
