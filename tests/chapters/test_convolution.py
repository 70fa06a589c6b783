"""A convolution as first layer: its patches, its fixed features, and its start."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from companion.chapters.weights_leak.convolution import patches_of, random_features, small_cnn


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0):
    return torch.randn(*size, generator=seeded(seed))


def test_patches_are_cut_from_the_images():
    images = normal(3, 3072)
    found = patches_of(images, (3, 32, 32), seeded(), per_image=4)
    assert found.shape == (12, 75)
    windows = images.unflatten(1, (3, 32, 32)).unfold(2, 5, 1).unfold(3, 5, 1)  # (n, 3, 28, 28, 5, 5)
    for k, patch in enumerate(found):
        own = windows[k // 4].permute(1, 2, 0, 3, 4).reshape(-1, 75)
        assert (own == patch).all(1).any()


def test_features_are_those_of_one_kernel():
    """The same for every set, whatever else is mapped; and as a convolution module computes them."""
    x = normal(5, 3 * 9 * 8)
    (first, second), shape = random_features([x[:2], x], (3, 9, 8), seeded())
    assert shape == (8, 5, 4) and first.shape == (2, 160)
    assert torch.equal(first, second[:2]) and (first >= 0).all() and first.any()
    kernel = torch.randn(8, 3, 5, 5, generator=seeded()) / 75**0.5
    images = F.pad(x.unflatten(1, (3, 9, 8)), (2, 2, 2, 2))
    one = (images[1, :, 2:7, 4:9] * kernel[3]).sum().clamp_min(0)  # row 1, column 2 of map 3
    assert second.unflatten(1, shape)[1, 3, 1, 2].item() == pytest.approx(one.item(), abs=1e-5)


def test_small_cnn_draws_from_the_generator_alone():
    before = torch.get_rng_state()
    module = small_cnn((3, 32, 32), seeded())
    assert torch.equal(torch.get_rng_state(), before)
    assert [tuple(p.shape) for p in module.parameters()] == [(64, 3, 5, 5), (64,), (1, 16384), (1,)]
    for parameter, fan_in in zip(module.parameters(), (75, 75, 16384, 16384), strict=True):
        assert parameter.abs().max() <= fan_in**-0.5 and parameter.any()
    same = small_cnn((3, 32, 32), seeded())
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), same.parameters(), strict=True))
    assert module(normal(2, 3072)).shape == (2, 1)
