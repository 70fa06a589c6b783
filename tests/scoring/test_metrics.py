"""Metrics against scikit-image, NumPy and loops, for images of several shapes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from recon.errors import ReconError
from recon.scoring import metrics

SHAPES = ((3, 32, 32), (1, 8, 8), (2, 7, 19), (3, 12, 9))


def images(n, seed=0, shape=(3, 32, 32)):
    """Random images with some structure, (n, d) float64 in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, shape[0], 4, 4, generator=generator, dtype=torch.float64)
    smooth = torch.nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear")
    return (
        0.8 * smooth + 0.2 * torch.rand(smooth.shape, generator=generator, dtype=torch.float64)
    ).flatten(1)


@pytest.mark.parametrize("shape", SHAPES)
def test_ssim_equals_scikit_image(shape):
    a, b = images(3, shape=shape), images(4, seed=1, shape=shape)
    ours = metrics.ssim(a, b, shape, tile=2)
    assert ours.shape == (3, 4)
    for i, j in itertools.product(range(3), range(4)):
        pair = (x.reshape(shape).numpy() for x in (a[i], b[j]))
        assert ours[i, j].item() == pytest.approx(
            structural_similarity(*pair, data_range=1, channel_axis=0), abs=1e-10
        )


@pytest.mark.parametrize("shape", [(1, 6, 9), (3, 9, 6), (1, 1, 1)])
def test_ssim_needs_room_for_a_window(shape):
    x = torch.zeros(2, math.prod(shape))
    with pytest.raises(ReconError, match=f"7 × 7 pixels or more, not {shape[1]} × {shape[2]}"):
        metrics.ssim(x, x, shape)


@pytest.mark.parametrize("metric", [metrics.ssim, metrics.ncc_channel])
def test_images_of_another_shape(metric):
    with pytest.raises(
        ReconError, match=r"images of 64 numbers are not of shape \(C, H, W\) = \(3, 8, 8\)"
    ):
        metric(torch.zeros(2, 64), torch.zeros(2, 64), (3, 8, 8))


@pytest.mark.parametrize("shape", SHAPES)
def test_ncc_per_channel_equals_a_loop_and_ignores_each_channels_contrast(shape):
    a, b = images(3, shape=shape), images(4, seed=1, shape=shape)
    found = metrics.ncc_channel(a, b, shape)
    for i, j in itertools.product(range(3), range(4)):
        pairs = zip(a[i].reshape(shape[0], -1), b[j].reshape(shape[0], -1), strict=True)
        assert found[i, j].item() == pytest.approx(
            np.mean([np.corrcoef(p, q)[0, 1] for p, q in pairs]), abs=1e-9
        )
    contrast = torch.linspace(0.2, 3.0, shape[0], dtype=a.dtype)[:, None]
    tinted = (a.reshape(3, shape[0], -1) * contrast + 0.1).flatten(1)
    assert torch.allclose(metrics.ncc_channel(tinted, b, shape), found, atol=1e-9)


def test_haims_distance_is_the_ncc_of_the_channels():
    """Squared L2 between images standardised per channel: 2 d (1 − NCC)."""
    shape, standard = (3, 8, 8), []
    for x in (images(1, shape=shape), images(1, seed=1, shape=shape)):
        channels = x.reshape(3, -1).numpy()
        standard.append(
            (channels - channels.mean(1, keepdims=True)) / channels.std(1, keepdims=True)
        )
    expected = 1 - ((standard[0] - standard[1]) ** 2).sum() / (2 * 192)
    found = metrics.ncc_channel(
        images(1, shape=shape), images(1, seed=1, shape=shape), shape
    ).item()
    assert found == pytest.approx(expected, abs=1e-12)


def test_psnr_equals_scikit_image():
    a, b = images(3), images(3, seed=1)
    expected = [
        peak_signal_noise_ratio(x.numpy(), y.numpy(), data_range=1)
        for x, y in zip(a, b, strict=True)
    ]
    assert np.allclose(metrics.psnr(metrics.mse(a, b)), expected)
    louder = [
        peak_signal_noise_ratio(255 * x.numpy(), 255 * y.numpy(), data_range=255)
        for x, y in zip(a, b, strict=True)
    ]
    assert np.allclose(metrics.psnr(metrics.mse(255 * a, 255 * b), 255.0), louder)


def test_l2_and_ncc_equal_loops():
    a, b = images(3), images(4, seed=1)
    for i, j in itertools.product(range(3), range(4)):
        assert metrics.l2(a, b)[i, j].item() == pytest.approx(
            (a[i] - b[j]).norm().item(), abs=1e-12
        )
        assert metrics.ncc(a, b)[i, j].item() == pytest.approx(
            np.corrcoef(a[i], b[j])[0, 1], abs=1e-12
        )


def test_ncc_ignores_brightness_and_contrast_and_survives_constants():
    a, b = images(3), images(4, seed=1)
    assert torch.allclose(metrics.ncc(a, b), metrics.ncc(0.1 * a + 3, 7 * b - 1))
    assert torch.equal(metrics.ncc(torch.full((1, 3072), 0.3), b.float()), torch.zeros(1, 4))


@pytest.mark.parametrize("scale", [1e-8, 1e-5, 1e5])
def test_ncc_of_faint_images(scale):
    """Down to a standard deviation of 1e-6 an image counts; below, it is constant up to
    round-off.
    """
    a, b = images(3), images(4, seed=1)
    expected = metrics.ncc(a, b) if scale > 1e-7 else torch.zeros(3, 4, dtype=a.dtype)
    assert torch.allclose(metrics.ncc(scale * a, b), expected)


def test_mse_is_a_mean_over_all_but_the_rows():
    a, b = images(3).reshape(3, 3, 32, 32), images(3, seed=1).reshape(3, 3, 32, 32)
    expected = [np.mean((x.numpy() - y.numpy()) ** 2) for x, y in zip(a, b, strict=True)]
    assert np.allclose(metrics.mse(a, b), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_correlations_stay_in_their_range_despite_rounding(dtype):
    """Images against themselves and their negatives."""
    x = torch.randn(400, 48, generator=torch.Generator().manual_seed(0), dtype=dtype)
    for found in (metrics.ncc(x, x), metrics.ncc_channel(x, x, (3, 4, 4))):
        assert found.max() == 1 and torch.allclose(found.diagonal(), torch.ones(400, dtype=dtype))
    for found in (metrics.ncc(x, -x), metrics.ncc_channel(x, -x, (3, 4, 4))):
        assert found.min() == -1 and torch.allclose(found.diagonal(), -torch.ones(400, dtype=dtype))
