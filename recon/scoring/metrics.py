"""How alike two sets of images are: every pair at once, by GEMMs and convolutions, no m × n × d
intermediates.

Images are flat rows (m, d) in C H W order with values meant for [0, 1]; `shape` is (C, H, W), d = C
H W.
"""

import math

import torch
from torch import Tensor

from recon.errors import ReconError

Shape = tuple[int, ...]
WINDOW = 7  # scikit-image's default window


def l2(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances ‖a_i − b_j‖₂, (m, d), (n, d) -> (m, n), ≥ 0; exactly 0 for equal rows."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _standardise(x: Tensor) -> Tensor:
    """Rows minus their mean, over their norm; a constant row becomes 0."""
    x = x - x.mean(-1, keepdim=True)
    norm = x.norm(dim=-1, keepdim=True)
    return torch.where(norm > 1e-6 * math.sqrt(x.shape[-1]), x / norm.clamp_min(1e-30), 0.0)


def ncc(a: Tensor, b: Tensor) -> Tensor:
    """Normalised cross-correlation over whole images, (m, n) in [−1, 1].

    ⟨a − ā, b − b̄⟩ / (‖a − ā‖ ‖b − b̄‖): blind to brightness and contrast of either image; a
    constant image scores 0.

    >>> ramp = torch.arange(4.0)[None]
    >>> [round(ncc(other, ramp).item(), 3) for other in (ramp, 5 - 2 * ramp, torch.ones(1, 4))]
    [1.0, -1.0, 0.0]
    """
    return (_standardise(a) @ _standardise(b).mT).clamp(-1, 1)


def ncc_channel(a: Tensor, b: Tensor, shape: Shape) -> Tensor:
    """The mean over the C channels of their normalised cross-correlations, (m, n) in [−1, 1]. Blind
    to brightness and contrast of each channel. The distance of Haim et al. (2022), the squared L2
    between images standardised per channel, is 2 d (1 − this). ReconError for images that are not
    of `shape`.
    """

    def flat(x: Tensor) -> Tensor:
        return _standardise(_as_images(x, shape).flatten(2)).flatten(1)

    return (flat(a) @ flat(b).mT / shape[0]).clamp(-1, 1)


def _as_images(x: Tensor, shape: Shape) -> Tensor:
    """Rows (m, d) as (m, C, H, W)."""
    if x.shape[-1] != math.prod(shape):
        raise ReconError(
            f"images of {x.shape[-1]} numbers are not of shape (C, H, W) = {tuple(shape)}"
        )
    return x.reshape(-1, *shape)


def _window_means(side: int, like: Tensor) -> Tensor:
    """(side − 6, side): times a row of pixels, the means over all windows inside it; in dtype and
    device of `like`.
    """
    windows = torch.eye(side).to(like).unfold(0, WINDOW, 1)
    return windows.sum(-1) / WINDOW


def ssim(a: Tensor, b: Tensor, shape: Shape, tile: int = 64) -> Tensor:
    """Mean structural similarity (Wang et al. 2004), (m, n) in [−1, 1], for data range 1.
    scikit-image's `structural_similarity(..., data_range=1, channel_axis=0)`: uniform 7 × 7 window,
    sample covariances, windows inside the image only, mean over pixels and channels. One row of `a`
    and `tile` rows of `b` at a time, which stay in a processor's cache. ReconError for images that
    are not of `shape` or have no room for a window.
    """
    if min(shape[1:]) < WINDOW:
        raise ReconError(
            f"SSIM needs images of {WINDOW} × {WINDOW} pixels or more, not {shape[1]} × {shape[2]}"
        )
    k1, k2 = 0.01**2, 0.03**2
    unbias = WINDOW**2 / (WINDOW**2 - 1)
    down, across = (_window_means(side, a) for side in shape[1:])  # two products per image

    def mean(x: Tensor) -> Tensor:
        return down @ (x @ across.mT)

    def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        images = _as_images(x, shape)
        means = mean(images)
        return images, means, unbias * (mean(images.square()) - means.square())

    images_a, mean_a, var_a = moments(a)
    images_b, mean_b, var_b = moments(b)
    scores = a.new_empty(len(a), len(b))
    for start in range(0, len(b), tile):
        part = slice(start, start + tile)
        brightness_b, contrast_b = mean_b[part].square() + k1, var_b[part] + k2
        for row in range(len(a)):
            means = mean_a[row] * mean_b[part]
            numerator = mean(images_a[row] * images_b[part]).sub_(means).mul_(2 * unbias).add_(k2)
            numerator *= means.mul_(2).add_(k1)
            denominator = (brightness_b + mean_a[row].square()) * (contrast_b + var_a[row])
            scores[row, part] = (numerator / denominator).flatten(1).mean(1)
    return scores


def mse(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared error, row by row: (m, …), (m, …) -> (m,).

    >>> mse(torch.zeros(2, 3), torch.tensor([[1.0, 1, 1], [0, 0, 3]])).tolist()
    [1.0, 3.0]
    """
    return (a - b).square().flatten(1).mean(1)


def psnr(error: Tensor, peak: float = 1.0) -> Tensor:
    """Peak signal-to-noise ratio 20 log10(peak) − 10 log10(MSE) in dB, from mean squared errors
    (m,).

    Chen & Campbell (2022) take peak 255 with images in [0, 1]: 48.13 dB above peak 1.

    >>> error = torch.tensor(0.01)
    >>> [round(psnr(error, peak).item(), 2) for peak in (1.0, 255.0)]
    [20.0, 68.13]
    """
    return 20 * math.log10(peak) - 10 * torch.log10(error)
