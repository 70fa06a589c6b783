"""Many small networks at once, all trained on the same images but for one image of their own.

One start, full batches, momentum, nothing random: the trained θ is a function of the one image.  That is what a shadow
network of Balle, Cherubin & Hayes (2022) is, and all networks together cost one large matrix product a layer and step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP

AT_ONCE = 256  # networks in one batch: more leave the cache


@dataclass(frozen=True)
class Recipe:
    """Heavy-ball descent on the mean cross-entropy: v ← momentum·v + ∇E, θ ← θ − lr·v, `steps` times.  The values are
    those of Balle et al.'s code."""

    steps: int = 100
    lr: float = 0.1
    momentum: float = 0.9


@dataclass(frozen=True)
class AllButOne:
    """What everybody knows but the last image: a network with one hidden layer and biases, its start θ⁰ (p,), the known
    images (n − 1, d) with labels (n − 1,), and the recipe.  ReconError for another network."""

    network: MLP
    theta_init: Tensor
    x: Tensor
    labels: Tensor
    recipe: Recipe = Recipe()

    def __post_init__(self) -> None:
        if self.network.depth != 2 or self.network.bias not in (None, (True, True)) or self.network.widths[-1] < 2:
            raise ReconError(
                "networks that share all images but one have one hidden layer, biases, and several outputs"
            )

    def train(self, x: Tensor, labels: Tensor) -> Tensor:
        """θ (S, p) of the networks that have the images x (S, d) with labels (S,) besides."""
        parts = zip(x.split(AT_ONCE), labels.split(AT_ONCE), strict=True)
        return torch.cat([self._train(*part) for part in parts])

    def _train(self, x: Tensor, labels: Tensor) -> Tensor:
        """One batch.  Images lie in the last dimension, so that the first layer of all networks is one product."""
        params = self.network.unflatten(self.theta_init.repeat(len(x), 1))
        theta = [params["w1"], params["b1"][..., None], params["w2"], params["b2"][..., None]]
        speed = [torch.zeros_like(part) for part in theta]
        wanted, own = (F.one_hot(y, self.network.widths[-1]).to(x) for y in (self.labels, labels))
        for _ in range(self.recipe.steps):
            shared = self._gradients(theta, self.x, wanted.mT, everybodys=True)
            single = self._gradients(theta, x, own[..., None], everybodys=False)
            for part, v, one, other in zip(theta, speed, shared, single, strict=True):
                v.mul_(self.recipe.momentum).add_(one).add_(other)
                part -= self.recipe.lr * v
        return torch.cat([part.flatten(1) for part in theta], dim=1)

    def _gradients(self, theta: list[Tensor], x: Tensor, wanted: Tensor, everybodys: bool) -> list[Tensor]:
        """Of the sum of cross-entropies over n, by the parameters of S networks: of everybody's images (n − 1, d), with
        wanted (K, n − 1), or of one image each, (S, d) with (S, K, 1)."""
        w1, b1, w2, b2 = theta
        runs, width, dim = w1.shape
        z = ((w1.reshape(-1, dim) @ x.mT).view(runs, width, -1) if everybodys else w1 @ x[..., None]) + b1
        hidden = self.network.activation(z)
        out = ((w2 @ hidden + b2).softmax(1) - wanted) / (len(self.x) + 1)
        back = (w2.mT @ out) * self.network.slope(z)
        first = (back.reshape(runs * width, -1) @ x).view(runs, width, dim) if everybodys else back * x[:, None]
        return [first, back.sum(2, keepdim=True), out @ hidden.mT, out.sum(2, keepdim=True)]


__all__ = ["AllButOne", "Recipe"]
