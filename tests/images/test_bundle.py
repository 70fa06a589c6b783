"""The bundle against the partitions it is made of, one image at a time."""

from __future__ import annotations

import pytest
import torch

from recon.errors import ReconError
from recon.images.bundle import PER_IMAGE, Bundle
from recon.images.partitions import partition
from recon.images.registry import load_pool

CPU = torch.device("cpu")
CLASSES = {"train": "y", "init": "init_y", "held_out": "held_out_y"}


@pytest.fixture(scope="module")
def data():
    return partition(load_pool("photos"), 20, n_held_out=12, seed=1)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_a_bundle_holds_the_partitions(data, centred, swapped):
    """Also of a shadow network, which has the two partitions in each other's place."""
    sources = {"train": data.train, "init": data.init, "held_out": data.held_out}
    if swapped:
        sources |= {"train": data.init, "init": data.train}
    bundle = Bundle.of(data.swapped() if swapped else data, CPU, torch.float64, centred)
    mean = sources["train"].x.flatten(1).mean(0) if centred else torch.zeros(3072)
    assert torch.equal(bundle.mean, mean.double()) and bundle.shape == (3, 32, 32)
    assert len(bundle) == 20 and bundle.dim == 3072
    for part, source in sources.items():
        x = getattr(bundle, part)
        assert torch.equal(x, (source.x.flatten(1) - mean).double())
        assert torch.equal(getattr(bundle, CLASSES[part]), source.y.double())
        assert torch.equal(getattr(bundle, f"{part}_labels"), source.labels)
        assert torch.equal(getattr(bundle, f"{part}_index"), source.index)
        torch.testing.assert_close(bundle.pixels(x), source.x.double(), rtol=0, atol=1e-6)


def test_take_is_a_block_of_each_class(data):
    bundle = Bundle.of(data, CPU)
    block = bundle.take(2, 5)
    for name in PER_IMAGE:
        rows = getattr(bundle, name)
        half = len(rows) // 2
        expected = torch.stack([rows[k] for k in (2, 3, 4, half + 2, half + 3, half + 4)])
        assert torch.equal(getattr(block, name), expected)
    assert torch.equal(block.mean, bundle.mean) and len(bundle.take(0, 6).held_out) == 12
    for wrong in ((0, 7), (-1, 2), (3, 2)):
        with pytest.raises(ReconError, match="there are 6"):
            bundle.take(*wrong)


def test_others_are_centred_alike(data):
    pool, rows = load_pool("photos"), [5, 200, 9]
    bundle = Bundle.of(data, CPU, torch.float64)
    more = bundle.with_others(pool, torch.tensor(rows))
    expected = torch.from_numpy(pool.images[rows] / 255).flatten(1) - bundle.mean
    torch.testing.assert_close(more.init, expected, rtol=0, atol=1e-7)
    assert more.init_y.tolist() == pool.y[rows].tolist()
    assert more.init_index.tolist() == rows and more.train is bundle.train
