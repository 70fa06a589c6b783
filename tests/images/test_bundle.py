"""The bundle against the partitions it is made of, one image at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from recon.errors import ReconError
from recon.images.bundle import PER_IMAGE, Bundle
from recon.images.partitions import partition
from recon.images.pool import PARTS
from recon.images.registry import load_pool

CPU = torch.device("cpu")
CLASSES = {"train": "y", "init": "init_y", "held_out": "held_out_y"}


@pytest.fixture(scope="module")
def data():
    return partition(load_pool("photos"), 20, n_held_out=12, seed=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("centred", [True, False])
def test_a_bundle_holds_the_partitions(data, dtype, centred):
    bundle = Bundle.of(data, CPU, dtype, centred)
    mean = (
        torch.stack([x.flatten() for x in data.train.x]).mean(0) if centred else torch.zeros(3072)
    )
    assert torch.equal(bundle.mean, mean.to(dtype)) and bundle.shape == (3, 32, 32)
    assert len(bundle) == 20 and bundle.dim == 3072
    for part in PARTS:
        source, x = getattr(data, part), getattr(bundle, part)
        assert (
            torch.equal(x, torch.stack([image.flatten() - mean for image in source.x]).to(dtype))
            and x.dtype == dtype
        )
        y = getattr(bundle, CLASSES[part])
        assert y.dtype == dtype and y.tolist() == source.y.tolist()
        assert torch.equal(getattr(bundle, f"{part}_labels"), source.labels)
        assert torch.equal(getattr(bundle, f"{part}_index"), source.index)
        assert torch.allclose(bundle.pixels(x), source.x.to(dtype), atol=1e-6)
    assert not centred or bundle.train.mean(0).abs().max() < 1e-6


def test_the_shadow_has_the_two_partitions_in_each_others_place(data):
    shadow, own = Bundle.of(data.swapped(), CPU), Bundle.of(data, CPU)
    assert torch.equal(shadow.train_index, own.init_index) and torch.equal(
        shadow.init_index, own.train_index
    )
    assert torch.equal(shadow.held_out_index, own.held_out_index)
    assert torch.equal(shadow.mean, data.init.flat.mean(0))  # by its own training images


def test_take_is_a_block_of_each_class(data):
    bundle = Bundle.of(data, CPU)
    taken = bundle.take(2, 5)
    for part in PARTS:
        x, half = getattr(bundle, part), len(getattr(bundle, part)) // 2
        rows = [2, 3, 4, half + 2, half + 3, half + 4]
        assert torch.equal(getattr(taken, part), torch.stack([x[row] for row in rows]))
        assert getattr(taken, CLASSES[part]).tolist() == [0, 0, 0, 1, 1, 1]
        for field in ("labels", "index"):
            expected = [getattr(bundle, f"{part}_{field}")[row].item() for row in rows]
            assert getattr(taken, f"{part}_{field}").tolist() == expected
    assert torch.equal(taken.mean, bundle.mean) and len(bundle.take(0, 6).held_out) == 12
    for wrong in ((0, 7), (-1, 2), (3, 2)):
        with pytest.raises(ReconError, match="there are 6"):
            bundle.take(*wrong)


def test_at_side_is_block_means(data):
    bundle = Bundle.of(data, CPU)
    small = bundle.at_side(8)
    assert small.shape == (3, 8, 8) and small.dim == 192
    for name in (*PARTS, "mean"):
        images = (
            getattr(bundle, name).reshape(-1, 3, 8, 4, 8, 4).numpy().mean((3, 5)).reshape(-1, 192)
        )
        assert np.allclose(getattr(small, name).reshape(-1, 192), images, atol=1e-6)


def test_others_are_centred_alike(data):
    pool = load_pool("photos")
    bundle = Bundle.of(data, CPU, torch.float64)
    more = bundle.with_others(pool, torch.tensor([5, 200, 9]))
    for x, row in zip(more.init, (5, 200, 9), strict=True):
        expected = torch.from_numpy(pool.images[row]).float().flatten() / 255 - bundle.mean
        assert torch.allclose(x, expected, atol=1e-7) and x.dtype == torch.float64
    assert more.init_y.tolist() == pool.y[[5, 200, 9]].tolist() and more.init_index.tolist() == [
        5,
        200,
        9,
    ]
    assert torch.equal(more.init_labels, torch.from_numpy(pool.labels[[5, 200, 9]]))
    assert more.train is bundle.train


def test_every_field_has_a_row_an_image_or_none():
    names = [field.name for field in dataclasses.fields(Bundle)]
    assert names == [*PER_IMAGE, "mean", "shape"] and len(PER_IMAGE) == 12
