"""Readers of weights: exact where these are linear in the image, no better than the mean where they say nothing."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.all_but_one.reconstructor import ReaderSettings, Standardised, linear_reader, network_reader
from recon.errors import ReconError

SHADOWS, PIXELS, P = 400, 6, 15


@pytest.fixture
def linear():
    """Weights A x + b, of which one is always the same and one always 0."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(SHADOWS + 50, PIXELS, generator=generator)
    theta = images @ torch.randn(PIXELS, P, generator=generator) + torch.randn(P, generator=generator)
    theta[:, 3], theta[:, 4] = 7.0, 0.0
    return theta[:SHADOWS], images[:SHADOWS], theta[SHADOWS:], images[SHADOWS:]


def test_standardised_weights_are_those_that_move(linear):
    theta, *_ = linear
    rows = Standardised.of(theta)(theta)
    assert rows.shape == (SHADOWS, P - 2)
    assert torch.allclose(rows.mean(0), torch.zeros(P - 2), atol=1e-5) and torch.allclose(
        rows.std(0), torch.ones(P - 2)
    )


def test_a_matrix_inverts_a_linear_map(linear):
    theta, images, unseen, truth = linear
    assert (linear_reader(theta, images, decay=1e-8)(unseen) - truth).abs().max() < 1e-3
    coarse = (linear_reader(theta, images, decay=1e3)(unseen) - images.mean(0)).abs().max()
    assert coarse < 0.1  # ridge regression with a large decay answers with the mean


def test_a_network_learns_it_and_the_generator_decides_how(linear):
    theta, images, unseen, truth = linear
    settings = ReaderSettings(width=64, epochs=40, lr=1e-3)
    reader, again = (network_reader(theta, images, settings, torch.Generator().manual_seed(1)) for _ in range(2))
    found = reader(unseen)
    assert torch.equal(found, again(unseen)) and not found.requires_grad
    assert (found - truth).square().mean() < 0.2 * (truth - images.mean(0)).square().mean()
    assert found.min() >= 0 and found.max() <= 1


def test_weights_that_say_nothing_give_the_mean(linear):
    _, images, _, truth = linear
    generator = torch.Generator().manual_seed(2)
    noise, more = torch.randn(SHADOWS, P, generator=generator), torch.randn(50, P, generator=generator)
    for reader in (
        linear_reader(noise, images),
        network_reader(noise, images, ReaderSettings(32, 3), torch.Generator().manual_seed(1)),
    ):
        assert (reader(more) - truth).square().mean() > 0.8 * (truth - images.mean(0)).square().mean()


def test_equal_networks_are_refused():
    with pytest.raises(ReconError, match="shadow networks that differ"):
        linear_reader(torch.ones(5, P), torch.rand(5, PIXELS, generator=torch.Generator().manual_seed(0)))
