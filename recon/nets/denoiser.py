"""A small U-Net that takes noise off photographs: the prior of `companion.chapters.weights_leak.separation_prior`."""

import torch
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.module import default_start


class Denoiser(nn.Module):
    """x̂ = D(z) for images (n, c, h, w): two convolutions at full size, two at half and two at a quarter of it, and
    back up, each size added to what comes from below (Ronneberger et al. 2015).  channels: at full size; twice and
    three times as many below · generator: of the start (PyTorch's default).  ReconError for sides that are no multiples
    of four."""

    def __init__(self, shape: tuple[int, ...], channels: int, generator: torch.Generator) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
            raise ReconError(f"the denoiser takes images whose sides are multiples of four, not {tuple(shape)}")
        full, half, quarter = channels, 2 * channels, 3 * channels
        self.down = nn.ModuleList([_convolutions(shape[0], full), _halved(full, half), _halved(half, quarter)])
        self.up = nn.ModuleList([_doubled(quarter, half), _doubled(half, full)])
        self.after = nn.ModuleList([nn.Sequential(nn.ReLU(), _convolution(size, size)) for size in (half, full)])
        self.last = nn.Conv2d(full, shape[0], 3, padding=1)
        default_start(self, generator)

    def forward(self, z: Tensor) -> Tensor:
        """(n, c, h, w) -> the same."""
        levels = []
        for part in self.down:
            z = part(z)
            levels.append(z)
        for up, after, beside in zip(self.up, self.after, levels[-2::-1], strict=True):
            z = after(up(z) + beside)
        return self.last(z)


def _convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU())


def _convolutions(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(_convolution(inputs, outputs), _convolution(outputs, outputs))


def _halved(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 2, 2), nn.ReLU(), _convolutions(outputs, outputs))


def _doubled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, 4 * outputs, 1), nn.PixelShuffle(2))
