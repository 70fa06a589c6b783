"""A convolution as first layer: fixed and random before a dense one, or trained itself, whose rows mix patches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import skip_init

KERNEL = 5
STRIDE = 2
MAPS = 8  # of the fixed convolution
KERNELS = 64  # of the trained one
Shape = tuple[int, ...]


def random_features(images: list[Tensor], shape: Shape, generator: torch.Generator) -> tuple[list[Tensor], Shape]:
    """Feature maps (n, 8 · H/2 · W/2) of sets of flat images (n, d) by one fixed random 5 × 5 convolution with stride 2
    and ReLU, and the maps' shape (8, H/2, W/2)."""
    kernel = torch.randn(MAPS, shape[0], KERNEL, KERNEL, generator=generator) / (shape[0] * KERNEL**2) ** 0.5

    def features(x: Tensor) -> Tensor:
        return F.relu(F.conv2d(x.unflatten(1, shape), kernel.to(x), stride=STRIDE, padding=KERNEL // 2)).flatten(1)

    return [features(x) for x in images], (MAPS, -(-shape[1] // STRIDE), -(-shape[2] // STRIDE))


def small_cnn(shape: Shape, generator: torch.Generator) -> nn.Sequential:
    """Convolution to 64 maps, 5 × 5, stride 2; ReLU; dense to one logit; PyTorch's default start."""
    outputs = KERNELS * -(-shape[1] // STRIDE) * -(-shape[2] // STRIDE)
    first = skip_init(nn.Conv2d, shape[0], KERNELS, KERNEL, stride=STRIDE, padding=KERNEL // 2)
    last = skip_init(nn.Linear, outputs, 1)
    for layer in (first, last):
        bound = next(layer.parameters())[0].numel() ** -0.5
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(nn.Unflatten(1, shape), first, nn.ReLU(), nn.Flatten(), last)


def patches_of(x: Tensor, shape: Shape, generator: torch.Generator, per_image: int = 20) -> Tensor:
    """`per_image` random 5 × 5 patches of each of up to 500 flat images (n, d): (n · per_image, 75) for three colours.

    The places are those that the convolution sees, without its padding."""
    images = x[:500].unflatten(1, shape)
    all_patches = F.unfold(images, KERNEL, stride=STRIDE).mT  # (n, places, 75)
    places = torch.randint(all_patches.shape[1], (len(images), per_image), generator=generator).to(x.device)
    return all_patches.gather(1, places[..., None].expand(-1, -1, all_patches.shape[2])).flatten(0, 1)
