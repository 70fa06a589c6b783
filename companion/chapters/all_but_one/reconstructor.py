"""All images but one, and practice: a network that reads the last image off the weights.

Balle, Cherubin & Hayes (2022): train shadow networks on the known images and one more image each, and fit a network
from their weights to that image.  `linear_reader` is the same with a matrix for the network, in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recon.errors import ReconError

Reader = Callable[[Tensor], Tensor]
STILL = 1e-4  # a weight that varies less than this share of the median one, between shadow networks, says nothing


@dataclass(frozen=True)
class ReaderSettings:
    """width: of both hidden layers · epochs · batch · lr: of RMSprop, which has the decay rate 0.9."""

    width: int = 1000
    epochs: int = 200
    batch: int = 32
    lr: float = 3e-4


@dataclass(frozen=True)
class Standardised:
    """Weights as a reader takes them: those that move, each minus its mean over the shadow networks, over its standard
    deviation there."""

    mean: Tensor
    spread: Tensor
    moves: Tensor

    @staticmethod
    def of(theta: Tensor) -> Standardised:
        """By the shadow networks' θ (S, p); ReconError for fewer than two networks, or equal ones."""
        spread = theta.std(0)
        moves = spread > STILL * spread.median()
        if len(theta) < 2 or not moves.any():
            raise ReconError("a reader needs shadow networks that differ")
        return Standardised(theta.mean(0), spread, moves)

    def __call__(self, theta: Tensor) -> Tensor:
        """(S, p) -> (S, p')."""
        return ((theta - self.mean) / self.spread)[:, self.moves]


def linear_reader(theta: Tensor, images: Tensor, decay: float = 1e-2) -> Reader:
    """Ridge regression from the standardised θ (S, p) to images (S, d): no network, no iteration."""
    standard, mean = Standardised.of(theta), images.mean(0)
    rows = standard(theta).double()
    gram = rows.mT @ rows / len(rows)
    gram.diagonal().add_(decay)
    weight = torch.linalg.solve(gram, rows.mT @ (images - mean).double() / len(rows))
    return lambda released: (standard(released).double() @ weight).to(images) + mean


def network_reader(theta: Tensor, images: Tensor, settings: ReaderSettings, generator: torch.Generator) -> Reader:
    """The reconstructor: two hidden ReLU layers and a sigmoid, fitted to shadow θ (S, p) and images (S, d) in [0, 1] by
    the mean of squared plus absolute errors, as in their code.  generator: of its start and of the batches."""
    standard = Standardised.of(theta)
    rows = standard(theta)
    model = _start((rows.shape[1], settings.width, settings.width, images.shape[1]), rows, generator)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=settings.lr, alpha=0.9)
    for _ in range(settings.epochs):
        for batch in torch.randperm(len(rows), generator=generator).split(settings.batch):
            rest = model(rows[batch]) - images[batch]
            optimiser.zero_grad()
            (rest.square().mean() + rest.abs().mean()).backward()
            optimiser.step()
    model.requires_grad_(False)
    return lambda released: model(standard(released))


def _start(widths: tuple[int, ...], like: Tensor, generator: torch.Generator) -> nn.Sequential:
    """Weights N(0, 1/fan-in), as in their code; biases 0."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(widths[:-1], widths[1:], strict=True):
        layer = nn.Linear(fan_in, fan_out)
        drawn = torch.randn(layer.weight.shape, generator=generator) / fan_in**0.5
        layer.weight.data, layer.bias.data = drawn, torch.zeros_like(layer.bias.data)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Sigmoid()).to(like)


__all__ = ["Reader", "ReaderSettings", "Standardised", "linear_reader", "network_reader"]
