"""Three signs of a photograph, by hand and on photographs, blends and noise; the range that is
learned from them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_networks import seeded

from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.scoring.naturalness import Photographs, signs

SHAPE = (3, 32, 32)


@pytest.fixture(scope="module")
def photographs():
    x = load_pool("photos").pixels(range(280)).flatten(1)
    return x - x.mean(0)


def test_the_slope_of_a_spectrum_that_is_made():
    """Amplitude frequency^(−b/2) with random phases: b comes back, but for the width of the
    rings.
    """
    fy, fx = torch.fft.fftfreq(64, 1 / 64)[:, None], torch.fft.rfftfreq(64, 1 / 64)
    frequency = (fy.square() + fx.square()).sqrt().clamp_min(1)
    for b in (0.0, 1.0, 2.0, 3.0):
        phases = torch.fft.rfft2(torch.randn(40, 64, 64, generator=seeded()))
        x = torch.fft.irfft2(phases * frequency.pow(-b / 2), s=(64, 64)).flatten(1)
        assert signs(x, (1, 64, 64))["slope"].mean().item() == pytest.approx(b, abs=0.12)


def test_signs_are_blind_to_sign_size_and_brightness(photographs):
    x = photographs[:5]
    for name, values in signs(x, SHAPE).items():
        torch.testing.assert_close(signs(-3 * x + 0.5, SHAPE)[name], values, rtol=1e-4, atol=1e-5)


def test_noise_blends_blur_and_a_constant(photographs):
    of_photographs = signs(photographs, SHAPE)
    noise = signs(torch.randn(200, 3072, generator=seeded()), SHAPE)
    assert noise["edges"].mean().item() == pytest.approx(1 - math.sqrt(2 / math.pi), abs=0.005)
    blends = signs(torch.randn(200, 280, generator=seeded()) @ photographs, SHAPE)
    assert blends["edges"].mean() < of_photographs["edges"].mean() - 0.1
    pooled = torch.nn.functional.avg_pool2d(photographs.unflatten(1, SHAPE), 5, 1, 2)
    blurred = signs(pooled.flatten(1), SHAPE)
    for name in ("smoothness", "slope"):
        assert (blurred[name] > of_photographs[name]).double().mean() > 0.85
    constant = signs(torch.full((1, 3072), 2.0), SHAPE)
    assert not any(values.any() for values in constant.values())


def test_the_range_is_the_central_share_by_every_sign(photographs):
    rule = Photographs.of(photographs, SHAPE, central=0.5)
    natural = torch.ones(280, dtype=torch.bool)
    for name, values in signs(photographs, SHAPE).items():
        low, high = rule.ranges[name]
        inside = (values >= low) & (values <= high)
        assert inside.double().mean().item() == pytest.approx(0.5, abs=0.02)
        natural &= inside
    assert torch.equal(rule.look_like(photographs), natural)


@pytest.mark.parametrize("shape", [(3072,), (3, 16, 16), (1024, 3, 1)])
def test_what_is_no_photograph(shape):
    with pytest.raises(ReconError):
        signs(torch.zeros(1, 3072), shape)


def test_smoothness_and_edges_by_numpy():
    x = torch.randn(2, 3 * 4 * 5, generator=seeded(), dtype=torch.float64)
    values = signs(x, (3, 4, 5))
    for row, image in enumerate(x.numpy().reshape(2, 3, 4, 5)):
        down, right = np.diff(image, axis=1), np.diff(image, axis=2)
        steps = np.concatenate([down.ravel(), right.ravel()])
        mean = np.abs(steps).mean()
        assert values["smoothness"][row].item() == pytest.approx(-mean / image.std())
        assert values["edges"][row].item() == pytest.approx(1 - mean / np.sqrt(np.mean(steps**2)))


def test_photographs_look_like_photographs_and_noise_does_not(photographs):
    order = torch.randperm(280, generator=seeded())
    rule = Photographs.of(photographs[order[:140]], SHAPE)
    assert rule.look_like(photographs[order[140:]]).double().mean() > 0.85
    assert not rule.look_like(torch.randn(50, 3072, generator=seeded())).any()
