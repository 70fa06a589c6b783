"""Training of the prior: noise levels as stated, what it learns, and what an interrupted run ends
at.
"""

from __future__ import annotations

import pytest
import torch
from interruptions import killed_after

from recon.errors import ReconError
from recon.store.checkpoints import Checkpoints
from recon.training.denoiser import DenoiserSettings, mixtures, noisy, train_denoiser, unit

SMALL = DenoiserSettings(channels=4, steps=60, batch=16, step_size=3e-3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def boxes():
    """Images that are zero but for one bright box: far from Gaussian."""
    g, images = seeded(), torch.zeros(60, 1, 8, 8)
    for image, (top, left) in zip(
        images, torch.randint(0, 5, (60, 2), generator=g).tolist(), strict=True
    ):
        image[0, top : top + 3, left : left + 3] = 1.0
    return unit(images)


def test_unit_is_unit_and_zero_stays_zero():
    x = torch.randn(3, 2, 4, 4, generator=seeded()) * 5
    torch.testing.assert_close(unit(x).square().flatten(1).mean(1), torch.ones(3))
    assert not unit(torch.zeros(2, 1, 4, 4)).any()


def test_noise_has_its_level_and_is_a_mixture(boxes):
    noise = mixtures(boxes, 5, seeded(1))
    torch.testing.assert_close(noise.square().flatten(1).mean(1), torch.ones(5))
    span = torch.linalg.qr(boxes.flatten(1).T).Q
    torch.testing.assert_close(
        noise.flatten(1) @ span @ span.T, noise.flatten(1), rtol=0, atol=1e-5
    )
    tau = torch.tensor([0.5, 1, 2, 3, 4.0])
    z = noisy(boxes[:5], tau, noise)
    scale = (
        (boxes[:5] + tau.view(-1, 1, 1, 1) * noise)
        .square()
        .flatten(1)
        .mean(1)
        .sqrt()
        .view(-1, 1, 1, 1)
    )
    torch.testing.assert_close(z * scale - boxes[:5], tau.view(-1, 1, 1, 1) * noise)


def test_it_learns_what_a_linear_denoiser_cannot(boxes):
    network = train_denoiser(
        boxes, DenoiserSettings(channels=8, steps=400, batch=32, step_size=3e-3), seeded(2)
    )
    z = noisy(boxes, torch.ones(60), mixtures(boxes, 60, seeded(3)))
    assert (network(z) - boxes).square().mean() < 0.4  # a linear one with white images: 0.5
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_same_seed_same_denoiser_and_another_seed_another(boxes):
    first, again = (train_denoiser(boxes, SMALL, seeded(4)).state_dict() for _ in range(2))
    other = train_denoiser(boxes, SMALL, seeded(5)).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_an_interrupted_training_goes_on_to_the_same_denoiser(boxes, tmp_path):
    whole = train_denoiser(boxes, SMALL, seeded(6)).state_dict()
    checkpoint = Checkpoints(tmp_path).at("denoiser")
    with killed_after(20):
        train_denoiser(boxes, SMALL, seeded(6), checkpoint)
    assert checkpoint.load() is not None
    resumed = train_denoiser(boxes, SMALL, seeded(6), checkpoint).state_dict()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_one_image_is_no_prior(boxes):
    with pytest.raises(ReconError, match="two public images"):
        train_denoiser(boxes[:1], SMALL, seeded())
