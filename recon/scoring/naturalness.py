"""Whether a candidate looks like a photograph: three numbers, each within the range of photographs
of one's own.

No training image enters, so an adversary can apply the rule, and the same range holds for true and
false candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.scoring.metrics import Shape

CENTRAL = 0.99  # of the photographs, by each sign


def signs(x: Tensor, shape: Shape) -> dict[str, Tensor]:
    """Three signs of images x (m, d), centred, of `shape` (C, H, W); each (m,), blind to sign and
    size of the image. smoothness: −mean |∇x| / sd(x), larger is smoother: minus the total variation
    at unit contrast · slope: b in power ∝ frequency^−b, fitted by least squares to the logarithms
    of the radially averaged power spectrum; about 2 for photographs (Field 1987), 0 for noise ·
    edges: 1 − mean |∇x| / rms ∇x, the sparsity of the differences between neighbours; 1 − √(2/π) =
    0.20 for a blend of many images, whose differences are Gaussian. Differences are horizontal and
    vertical, in every colour. A constant image scores 0. ReconError for images that are not of
    `shape` or have fewer than 4 × 4 pixels.
    """
    if len(shape) != 3 or min(shape[1:]) < 4 or x.shape[-1] != torch.Size(shape).numel():
        raise ReconError(
            f"images of {x.shape[-1]} numbers are not photographs of shape {tuple(shape)}"
        )
    images = x.double().unflatten(-1, shape)
    steps = torch.cat([images.diff(dim=-1).flatten(1), images.diff(dim=-2).flatten(1)], dim=1)
    mean, rms = steps.abs().mean(1), steps.square().mean(1).sqrt()
    spread = images.flatten(1).std(dim=1, correction=0)
    flat = spread <= 1e-9 * images.flatten(1).abs().amax(1).clamp_min(1e-30)
    values = {
        "smoothness": -mean / spread.clamp_min(1e-30),
        "slope": _slope(images),
        "edges": 1 - mean / rms.clamp_min(1e-30),
    }
    return {name: value.masked_fill(flat, 0.0) for name, value in values.items()}


def _slope(images: Tensor) -> Tensor:
    """b (m,) of images (m, C, H, W): power summed over colours, averaged over rings of one cycle an
    image.
    """
    height, width = images.shape[-2:]
    power = torch.fft.fft2(images - images.mean((-2, -1), keepdim=True)).abs().square().sum(1)
    fy = torch.fft.fftfreq(height, 1 / height, dtype=torch.float64, device=images.device)
    fx = torch.fft.fftfreq(width, 1 / width, dtype=torch.float64, device=images.device)
    ring = (fy[:, None].square() + fx.square()).sqrt().round().long().flatten()
    rings = torch.arange(1, min(height, width) // 2, device=images.device)
    member = (ring == rings[:, None]).double()
    mean = power.flatten(1) @ (member / member.sum(1, keepdim=True)).mT
    x = rings.double().log() - rings.double().log().mean()
    return -(mean.clamp_min(1e-300).log() @ x) / x.square().sum()


@dataclass(frozen=True)
class Photographs:
    """Which values real photographs have: sign -> (lowest, highest), the central share `CENTRAL` of
    them each.
    """

    ranges: dict[str, tuple[float, float]]
    shape: Shape

    @staticmethod
    def of(x: Tensor, shape: Shape, central: float = CENTRAL) -> Photographs:
        """The ranges in photographs x (m, d), centred, that nobody trained on."""
        ends = x.new_tensor([(1 - central) / 2, (1 + central) / 2], dtype=torch.float64)
        ranges = {}
        for name, values in signs(x, shape).items():
            low, high = values.quantile(ends).tolist()
            ranges[name] = (low, high)
        return Photographs(ranges, shape)

    def look_like(self, x: Tensor) -> Tensor:
        """Which of x (m, d) look natural, (m,) bool: within the ranges by all signs."""
        natural = x.new_ones(len(x), dtype=torch.bool)
        for name, values in signs(x, self.shape).items():
            low, high = self.ranges[name]
            natural &= (values >= low) & (values <= high)
        return natural
