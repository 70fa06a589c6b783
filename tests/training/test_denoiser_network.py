"""The denoiser's network: shapes, and which of them it refuses."""

from __future__ import annotations

import pytest
import torch

from recon.errors import ReconError
from recon.training.denoiser import Denoiser


def test_the_size_of_the_image_comes_back():
    g = torch.Generator().manual_seed(0)
    for shape in ((3, 8, 12), (1, 16, 16)):
        network = Denoiser(shape, 4, g)
        z = torch.randn(2, *shape, generator=g)
        assert network(z).shape == z.shape
        assert not torch.allclose(network(z)[0], network(z)[1])


def test_half_the_size_has_twice_the_channels_and_a_quarter_three_times_as_many():
    g = torch.Generator().manual_seed(0)
    network, z, levels = Denoiser((3, 8, 12), 4, g), torch.randn(1, 3, 8, 12, generator=g), []
    for part in network.down:
        z = part(z)
        levels.append(tuple(z.shape[1:]))
    assert levels == [(4, 8, 12), (8, 4, 6), (12, 2, 3)]


def test_the_start_is_the_generators():
    one, same = (
        Denoiser((3, 8, 8), 4, torch.Generator().manual_seed(1)).state_dict() for _ in range(2)
    )
    other = Denoiser((3, 8, 8), 4, torch.Generator().manual_seed(2)).state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("shape", [(3, 6, 8), (3, 8, 10), (64,)])
def test_sides_that_cannot_be_halved_twice_are_refused(shape):
    with pytest.raises(ReconError, match="multiples of four"):
        Denoiser(shape, 4, torch.Generator())


def test_four_dimensions_are_no_image():
    with pytest.raises(ReconError, match="multiples of four"):
        Denoiser((3, 8, 8, 8), 2, torch.Generator().manual_seed(0))
