"""Bilevel reconstruction of the affine net: its measures by hand."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.bilevel.common import (
    converged,
    held_out_distance,
    measure,
    slopes,
)
from recon.images.registry import load_pool
from tests.records import bundle_of


def test_measures_by_hand():
    """Images of one colour each: every distance is a difference of colours times √3072."""
    root = 3072**0.5

    def flat(*values):
        return torch.tensor(values, dtype=torch.float64)[:, None].expand(-1, 3072).clone()

    images = bundle_of(flat(0.1, 0.3), flat(0.8, 0.6), flat(0.2, 0.5), (3, 32, 32))
    distances = measure(flat(0.2, 0.7), images.init, images)
    assert distances.moved_l2 == pytest.approx((0.6 + 0.1) / 2 * root)
    assert distances.nn_train_l2 == pytest.approx((0.1 + 0.4) / 2 * root)
    assert distances.nearer_to_partition == 0.5
    assert measure(images.init.flip(0), images.init, images).own_start_is_nearest == 0
    assert measure(images.init, images.init, images).own_start_is_nearest == 1
    assert held_out_distance(images) == pytest.approx((0.1 + 0.2) / 2 * root)


def test_convergence_looks_at_the_last_quarter():
    falling = torch.cat([torch.ones(12), torch.linspace(1.0, 0.98, 5)])
    assert (
        converged(torch.ones(8), 0.0) and not converged(falling, 0.0) and converged(falling, 0.98)
    )
    assert converged(torch.tensor([5.0, 1.0, 0.999, 0.998]), 0.0)


def test_noise_has_a_flat_spectrum_and_blotches_have_not():
    draw = torch.Generator().manual_seed(0)
    noise = torch.rand(40, 3072, generator=draw)
    coarse = torch.rand(40, 3, 8, 8, generator=draw)
    blotches = coarse.repeat_interleave(4, -1).repeat_interleave(4, -2).flatten(1)
    photographs = load_pool("photos").pixels(range(40)).flatten(1)
    slope = slopes(noise, photographs, (3, 32, 32))
    assert slope.random < 0.1 * slope.held_out < 0.1 * 3
    assert slopes(blotches, photographs, (3, 32, 32)).random > 0.5 * slope.held_out
    assert slopes((noise > 0.5).double(), photographs, (3, 32, 32)).random < 0.1 * slope.held_out
