"""Training of the prior: noise levels as stated, what it learns, and what an interrupted run ends
at.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from interruptions import killed_after
from small_networks import seeded

from companion.store.checkpoints import Checkpoints
from recon.errors import ReconError
from recon.training.denoiser import (
    Denoiser,
    DenoiserSettings,
    mixtures,
    noisy,
    train_denoiser,
    unit,
)

SMALL = DenoiserSettings(channels=4, steps=30, batch=16, step_size=3e-3)


@pytest.fixture(scope="module")
def boxes():
    """Images that are zero but for one bright box: far from Gaussian."""
    images = torch.zeros(60, 1, 8, 8)
    corners = torch.randint(0, 5, (60, 2), generator=seeded()).tolist()
    for image, (top, left) in zip(images, corners, strict=True):
        image[0, top : top + 3, left : left + 3] = 1.0
    return unit(images)


def test_noise_has_its_level_and_is_a_mixture(boxes):
    noise = mixtures(boxes, 5, seeded(1))
    torch.testing.assert_close(noise.square().flatten(1).mean(1), torch.ones(5))
    span = torch.linalg.qr(boxes.flatten(1).T).Q
    inside = noise.flatten(1) @ span @ span.T
    torch.testing.assert_close(inside, noise.flatten(1), rtol=0, atol=1e-5)
    tau = torch.tensor([0.5, 1, 2, 3, 4.0])
    mixed = boxes[:5] + tau.view(-1, 1, 1, 1) * noise
    size = mixed.square().flatten(1).mean(1).sqrt()
    torch.testing.assert_close(noisy(boxes[:5], tau, noise) * size.view(-1, 1, 1, 1), mixed)
    assert not unit(torch.zeros(2, 1, 4, 4)).any()


def test_it_learns_what_a_linear_denoiser_cannot(boxes):
    settings = DenoiserSettings(channels=8, steps=400, batch=32, step_size=3e-3)
    network = train_denoiser(boxes, settings, seeded(2))
    z = noisy(boxes, torch.ones(60), mixtures(boxes, 60, seeded(3)))
    assert (network(z) - boxes).square().mean() < 0.4  # a linear one with white images: 0.5


def test_an_interrupted_training_goes_on_to_the_same_denoiser(boxes, tmp_path):
    whole = train_denoiser(boxes, SMALL, seeded(6)).state_dict()
    checkpoint = Checkpoints(tmp_path).at("denoiser")
    with killed_after(20):
        train_denoiser(boxes, SMALL, seeded(6), checkpoint)
    assert checkpoint.load() is not None
    resumed = train_denoiser(boxes, SMALL, seeded(6), checkpoint).state_dict()
    other = train_denoiser(boxes, replace(SMALL, steps=1), seeded(7)).state_dict()
    for name, value in whole.items():
        assert torch.equal(value, resumed[name])
        assert not torch.equal(value, other[name])


@pytest.mark.parametrize("shape", [(3, 6, 8), (3, 8, 10), (64,), (3, 8, 8, 8)])
def test_sides_that_cannot_be_halved_twice_are_refused(shape):
    with pytest.raises(ReconError):
        Denoiser(shape, 4, seeded())


def test_one_image_is_no_prior(boxes):
    with pytest.raises(ReconError):
        train_denoiser(boxes[:1], SMALL, seeded())
