"""Small networks of convolutions whose training can be simulated, and one with a fully connected layer behind them."""

from __future__ import annotations

import math

import torch
from torch import nn

from recon.nets.residual import activation_of, default_start

Shape = tuple[int, int, int]


def small_convolutional(
    channels: int, activation: str, pooled: bool, shape: Shape, generator: torch.Generator, classes: int = 10
) -> nn.Sequential:
    """Three 3 × 3 convolutions to `channels`, 2 · channels and 2 · channels maps, the last two with stride 2; then the
    mean over positions (pooled) or none; then a fully connected layer.

    PyTorch's default initialisation · shape: (c, h, w) of the images · activation: a name of
    `recon.nets.residual.ACTIVATIONS`, else ReconError.
    """
    make, (inputs, h, w) = activation_of(activation), shape
    layers: list[nn.Module] = []
    for outputs, stride in ((channels, 1), (2 * channels, 2), (2 * channels, 2)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), make()]
        inputs = outputs
    head: tuple[nn.Module, ...] = (nn.AdaptiveAvgPool2d(1), nn.Flatten()) if pooled else (nn.Flatten(),)
    features = inputs * (1 if pooled else math.ceil(h / 4) * math.ceil(w / 4))
    module = nn.Sequential(*layers, *head, nn.Linear(features, classes))
    default_start(module, generator)
    return module


def count(module: nn.Module) -> int:
    """p: numbers that training changes."""
    return sum(parameter.numel() for parameter in module.parameters())


__all__ = ["count", "small_convolutional"]
