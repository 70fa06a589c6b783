"""Metrics against scikit-image, NumPy and loops, for images of several shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from recon.errors import ReconError
from recon.scoring import metrics

SHAPES = ((3, 32, 32), (1, 8, 8), (2, 7, 19), (3, 12, 9))


def images(n, seed=0, shape=(3, 32, 32)):
    """Random images with some structure, (n, d) float64 in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, shape[0], 4, 4, generator=generator, dtype=torch.float64)
    smooth = torch.nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear").flatten(1)
    return 0.8 * smooth + 0.2 * torch.rand(smooth.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("shape", SHAPES)
def test_ssim_equals_scikit_image(shape):
    a, b = images(3, shape=shape), images(4, seed=1, shape=shape)
    ours = metrics.ssim(a, b, shape, tile=2)
    for i, j in itertools.product(range(3), range(4)):
        pair = (x.reshape(shape).numpy() for x in (a[i], b[j]))
        theirs = structural_similarity(*pair, data_range=1, channel_axis=0)
        assert ours[i, j].item() == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_ncc_per_channel_equals_a_loop_and_ignores_each_channels_contrast(shape):
    a, b = images(3, shape=shape), images(4, seed=1, shape=shape)
    ours = metrics.ncc_channel(a, b, shape)
    channels = [x.unflatten(1, (shape[0], -1)) for x in (a, b)]
    for i, j in itertools.product(range(3), range(4)):
        pairs = zip(channels[0][i], channels[1][j], strict=True)
        expected = np.mean([np.corrcoef(p, q)[0, 1] for p, q in pairs])
        assert ours[i, j].item() == pytest.approx(expected, abs=1e-9)
    contrast = torch.linspace(0.2, 3.0, shape[0], dtype=a.dtype)[:, None]
    tinted = (channels[0] * contrast + 0.1).flatten(1)
    assert torch.allclose(metrics.ncc_channel(tinted, b, shape), ours, atol=1e-9)


@pytest.mark.parametrize("peak", [1.0, 255.0])
def test_psnr_equals_scikit_image(peak):
    a, b = peak * images(3), peak * images(3, seed=1)
    pairs = zip(a.numpy(), b.numpy(), strict=True)
    expected = [peak_signal_noise_ratio(x, y, data_range=peak) for x, y in pairs]
    assert np.allclose(metrics.psnr(metrics.mse(a, b), peak), expected)


@pytest.mark.parametrize("scale", [1e-8, 1e-5, 1e5])
def test_ncc_of_faint_images(scale):
    """Down to a standard deviation of 1e-6 an image counts; below, it is constant up to
    round-off.
    """
    a, b = images(3), images(4, seed=1)
    expected = metrics.ncc(a, b) if scale > 1e-7 else torch.zeros(3, 4, dtype=a.dtype)
    assert torch.allclose(metrics.ncc(scale * a, b), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_correlations_stay_in_their_range_despite_rounding(dtype, sign):
    """Images against themselves and their negatives."""
    x = torch.randn(400, 48, generator=torch.Generator().manual_seed(0), dtype=dtype)
    for values in (metrics.ncc(x, sign * x), metrics.ncc_channel(x, sign * x, (3, 4, 4))):
        assert values.abs().max() == 1
        assert torch.allclose(values.diagonal(), torch.full((400,), sign, dtype=dtype))


@pytest.mark.parametrize("shape", [(1, 6, 9), (3, 9, 6), (3, 8, 8)])
def test_images_without_room_for_a_window_or_of_another_shape(shape):
    x = torch.zeros(2, 54)
    with pytest.raises(ReconError):
        metrics.ssim(x, x, shape)


@pytest.mark.parametrize("size", [(53,), (2, 53), (2, 54, 1)])
def test_images_of_another_shape_have_no_channels(size):
    """One row, several, and such as are no rows."""
    with pytest.raises(ReconError, match="are not of shape"):
        metrics.ncc_channel(torch.zeros(size), torch.zeros(2, 54), (1, 6, 9))


def test_l2_and_ncc_equal_scipy_and_numpy():
    a, b = images(3), images(4, seed=1)
    assert np.allclose(metrics.l2(a, b), cdist(a, b), atol=1e-12, rtol=0)
    assert np.allclose(metrics.ncc(a, b), np.corrcoef(a, b)[:3, 3:], atol=1e-12, rtol=0)
    assert torch.allclose(metrics.ncc(a, b), metrics.ncc(0.1 * a + 3, 7 * b - 1))
