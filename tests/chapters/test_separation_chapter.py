"""Chapter 6: oracles for what is counted and what is true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.separation.experiment import best_null_images
from companion.chapters.separation_common import (
    counts,
    is_true,
    other_rows,
    others_of,
)
from recon.images.pool import ImagePool
from recon.scoring.matching import one_to_one
from recon.scoring.metrics import ncc


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0):
    return torch.randn(*size, generator=seeded(seed))


def context(n=12, seed=0):
    """A pool of n images whose index is 100, 101, …, and nothing else."""
    images = np.random.default_rng(0).integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    index, y = np.arange(100, 100 + n), np.arange(n) % 2
    pool = ImagePool("toy", images, y, y, index, np.full(n, "train"))
    return Context(pool, torch.device("cpu"), seed, Path(), None)


# --------------------------------------------------------------------------------------- the counts


def test_the_envelope_counts_what_the_best_null_at_each_threshold_has():
    train = normal(12, 60, seed=3)
    nulls = {"a": train + normal(12, 60, seed=4), "b": train + 2 * normal(12, 60, seed=5)}
    nulls["c"] = torch.cat([train[:2], normal(10, 60, seed=9)])  # few, and the best of all
    envelope = best_null_images(train, nulls)["null_envelope"]
    for t in (0.2, 0.4, 0.6, 0.9):
        above = [int((one_to_one(train, x).score > t).sum()) for x in nulls.values()]
        assert int((envelope > t).sum()) == max(above)


def test_nobody_is_counted_twice():
    image, once = normal(1, 50), {"ncc_0.6": 1, "ncc_0.7": 1, "ncc_0.8": 1}
    assert counts(image, torch.cat([image, image])) == once
    assert counts(torch.cat([image, image]), image) == once
    assert counts(-image, image) == dict.fromkeys(once, 0)  # the sign is the candidates' affair


# ------------------------------------------------------------------------------ what counts as true


def test_truth_is_near_a_training_image_and_nearer_than_any_stranger():
    train, strangers = normal(4, 200, seed=1), normal(6, 200, seed=2)
    near = train[0] + 0.3 * normal(200, seed=3)
    far = train[1] + 2.0 * normal(200, seed=4)
    sources = torch.stack([near, -near, far, strangers[2], train[3]])
    assert is_true(sources, train, strangers).tolist() == [True, True, False, False, True]
    nearer = torch.cat([strangers, near[None] + 0.1 * normal(1, 200, seed=5)])
    assert is_true(sources, train, nearer).tolist() == [False, False, False, False, True]
    assert is_true(sources, train, -nearer).tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(("likeness", "expected"), [(0.69, False), (0.71, True)])
def test_truth_begins_at_a_likeness(likeness, expected):
    train = normal(1, 4000, seed=1)
    noise = normal(1, 4000, seed=2)
    train, noise = (x - x.mean() for x in (train, noise))
    noise = noise - (noise @ train.mT) / (train @ train.mT) * train
    x = likeness * train / train.norm() + (1 - likeness**2) ** 0.5 * noise / noise.norm()
    assert ncc(x, train).item() == pytest.approx(likeness, abs=1e-4)
    assert is_true(x, train, normal(3, 4000, seed=3)).item() is expected


def test_strangers_are_not_among_the_used():
    used = torch.tensor([100, 103, 111, 7])
    rows = other_rows(context(), used)
    assert sorted(rows.tolist()) == [1, 2, *range(4, 11)]
    assert torch.equal(rows, other_rows(context(), used)) and not torch.equal(
        rows, other_rows(context(seed=1), used)
    )
    mean = torch.linspace(0, 1, 3072)
    images = others_of(context(), used, mean)
    expected = torch.from_numpy(context().pool.images[rows.numpy()]).flatten(1) / 255 - mean
    assert torch.allclose(images, expected, atol=1e-6)
