"""Three signs of a photograph, by hand and on photographs, blends and noise; the range that is
learned from them.
"""

from __future__ import annotations

import math

import pytest
import torch

from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.scoring.naturalness import Photographs, signs

SHAPE = (3, 32, 32)


@pytest.fixture(scope="module")
def photographs():
    x = load_pool("photos").pixels(range(280)).flatten(1)
    return x - x.mean(0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_smoothness_and_edges_by_a_loop():
    x = torch.randn(2, 3 * 4 * 5, generator=seeded(), dtype=torch.float64)
    found = signs(x, (3, 4, 5))
    for row, image in enumerate(x.unflatten(1, (3, 4, 5))):
        steps = [
            (image[c, i + di, j + dj] - image[c, i, j]).item()
            for c in range(3)
            for i in range(4)
            for j in range(5)
            for di, dj in ((0, 1), (1, 0))
            if i + di < 4 and j + dj < 5
        ]
        mean = sum(map(abs, steps)) / len(steps)
        rms = math.sqrt(sum(step**2 for step in steps) / len(steps))
        assert found["smoothness"][row].item() == pytest.approx(
            -mean / x[row].std(correction=0).item()
        )
        assert found["edges"][row].item() == pytest.approx(1 - mean / rms)


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
    blends = torch.randn(200, 280, generator=seeded()) @ photographs
    noise = torch.randn(200, 3072, generator=seeded())
    assert signs(noise, SHAPE)["edges"].mean().item() == pytest.approx(
        1 - math.sqrt(2 / math.pi), abs=0.005
    )
    assert signs(noise, SHAPE)["slope"].abs().mean() < 0.1
    assert signs(blends, SHAPE)["edges"].mean() < signs(photographs, SHAPE)["edges"].mean() - 0.1
    blurred = torch.nn.functional.avg_pool2d(photographs.unflatten(1, SHAPE), 5, 1, 2).flatten(1)
    for name in ("smoothness", "slope"):
        assert (
            signs(blurred, SHAPE)[name] > signs(photographs, SHAPE)[name]
        ).double().mean() > 0.85
    constant = signs(torch.tensor([[0.0], [2.0]]) + torch.zeros(3072), SHAPE)
    assert all(values.tolist() == [0.0, 0.0] for values in constant.values())


def test_photographs_look_like_photographs_and_the_rest_does_not(photographs):
    order = torch.randperm(280, generator=seeded())
    known, other = photographs[order[:140]], photographs[order[140:]]
    rule = Photographs.of(known, SHAPE)
    assert (
        rule.look_like(known).double().mean() > 0.95
        and rule.look_like(other).double().mean() > 0.85
    )
    assert not rule.look_like(torch.randn(50, 3072, generator=seeded())).any()
    assert not rule.look_like(
        torch.nn.functional.avg_pool2d(other.unflatten(1, SHAPE), 9, 1, 4).flatten(1)
    ).all()


def test_the_range_is_the_central_share_by_every_sign(photographs):
    rule = Photographs.of(photographs, SHAPE, central=0.5)
    found = signs(photographs, SHAPE)
    for name, (low, high) in rule.ranges.items():
        inside = (found[name] >= low) & (found[name] <= high)
        assert inside.double().mean().item() == pytest.approx(0.5, abs=0.02)
    by_hand = torch.stack(
        [(found[n] >= low) & (found[n] <= high) for n, (low, high) in rule.ranges.items()]
    ).all(0)
    assert torch.equal(rule.look_like(photographs), by_hand)


@pytest.mark.parametrize("shape", [(3072,), (3, 16, 16), (1024, 3, 1)])
def test_what_is_no_photograph(shape):
    with pytest.raises(ReconError, match="are not photographs of shape"):
        signs(torch.zeros(1, 3072), shape)
