"""The convolutional networks of Table 1 of Chen & Campbell (2022), as functions of their weights.

Convolutions without bias, each followed by an activation, then one fully connected layer with bias and cross-entropy.
Layers are numbered 1 … d; x_0 is the image, z_i = W_i x_{i−1}, x_i = σ(z_i).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recon.errors import ReconError

LEAK = 0.2  # slope of LeakyReLU for z < 0
CLIP = 0.9999  # |tanh| beyond this is clipped before inversion, as in the paper


@dataclass(frozen=True)
class Activation:
    """σ, σ'(z) from the output x = σ(z), and σ⁻¹ where there is one."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in ("tanh", "leaky_relu", "relu"):
            raise ReconError(f"unsupported activation '{self.name}': choose tanh, leaky_relu or relu")

    def __call__(self, z: Tensor) -> Tensor:
        if self.name == "tanh":
            return torch.tanh(z)
        return F.leaky_relu(z, LEAK) if self.name == "leaky_relu" else F.relu(z)

    def slope(self, x: Tensor) -> Tensor:
        """σ'(z) as a function of x = σ(z)."""
        if self.name == "tanh":
            return 1 - x.square()
        low = LEAK if self.name == "leaky_relu" else 0.0
        return torch.where(x > 0, torch.ones_like(x), torch.full_like(x, low))

    def inverse(self, x: Tensor) -> Tensor:
        """Eq. (2); ReconError for ReLU, which forgets."""
        if self.name == "tanh":
            return torch.atanh(x.clamp(-CLIP, CLIP))
        if self.name == "relu":
            raise ReconError("ReLU is not invertible: layer-by-layer attacks need tanh or leaky_relu")
        return torch.where(x > 0, x, x / LEAK)


@dataclass(frozen=True)
class Conv:
    """One convolution: kernel side, output channels, stride, padding."""

    kernel: int
    channels: int
    stride: int = 1
    padding: int = 0

    def output(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """(c, h, w) of the input -> of the output; ReconError if the kernel does not fit."""
        sides = [(side + 2 * self.padding - self.kernel) // self.stride + 1 for side in shape[1:]]
        if min(self.kernel, self.channels, self.stride) < 1 or self.padding < 0 or min(sides) < 1:
            raise ReconError(f"a convolution {self} does not fit an input of {shape}")
        return (self.channels, *sides)

    def apply(self, x: Tensor, weight: Tensor) -> Tensor:
        """z = W x, (B, c, h, w) -> (B, o, h', w')."""
        return F.conv2d(x, weight, stride=self.stride, padding=self.padding)

    def transpose(self, delta: Tensor, weight: Tensor, shape: tuple[int, int, int]) -> Tensor:
        """Wᵀ δ, back to (B, *shape); also where (h + 2p − k) is no multiple of the stride."""
        rest = [(side + 2 * self.padding - self.kernel) % self.stride for side in shape[1:]]
        return F.conv_transpose2d(delta, weight, stride=self.stride, padding=self.padding, output_padding=rest)

    def weight_gradient(self, x: Tensor, delta: Tensor) -> Tensor:
        """∇_W ℓ = K x for every image by itself: (B, c, h, w), (B, o, h', w') -> (B, o, c·k·k)."""
        patches = F.unfold(x, self.kernel, padding=self.padding, stride=self.stride)
        return delta.flatten(2) @ patches.mT


@dataclass(frozen=True)
class ConvNet:
    """d convolutions, an activation after each, and a fully connected layer to `classes` logits."""

    convs: tuple[Conv, ...]
    shape: tuple[int, int, int] = (3, 32, 32)
    classes: int = 10
    activation: Activation = Activation("tanh")

    @property
    def depth(self) -> int:
        """d, the number of convolutions."""
        return len(self.convs)

    def shapes(self) -> list[tuple[int, int, int]]:
        """Of x_0 … x_d."""
        found = [self.shape]
        for conv in self.convs:
            found.append(conv.output(found[-1]))
        return found

    def init(self, seed: int) -> list[Tensor]:
        """[W_1, …, W_d, fully connected W, b] with PyTorch's default initialisation, right after manual_seed(seed)."""
        shapes = self.shapes()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[nn.Module] = [
                nn.Conv2d(shape[0], conv.channels, conv.kernel, conv.stride, conv.padding, bias=False)
                for conv, shape in zip(self.convs, shapes, strict=False)
            ]
            c, h, w = shapes[-1]
            layers.append(nn.Linear(c * h * w, self.classes))
        return [parameter.detach() for layer in layers for parameter in layer.parameters()]

    def logits(self, weights: list[Tensor], x: Tensor) -> Tensor:
        """(B, c, h, w) -> (B, classes)."""
        for conv, weight in zip(self.convs, weights, strict=False):
            x = self.activation(conv.apply(x, weight))
        return F.linear(x.flatten(1), *weights[-2:])

    def gradients(self, weights: list[Tensor], x: Tensor, labels: Tensor, first: int = 1) -> list[Tensor]:
        """Per-image gradients of the cross-entropy for layers `first` … d and the fully connected one, as functions of
        x_{first−1} (B, …): [(B, o, c·k·k), …, (B, classes, features), (B, classes)].  Written out, so that one backward
        pass through it gives what gradient matching needs."""
        inputs, shapes = [x], self.shapes()
        for conv, weight in zip(self.convs[first - 1 :], weights[first - 1 :], strict=False):
            inputs.append(self.activation(conv.apply(inputs[-1], weight)))
        features = inputs[-1].flatten(1)
        delta = F.linear(features, *weights[-2:]).softmax(-1) - F.one_hot(labels, self.classes).to(x.dtype)
        found = [delta.unsqueeze(-1) * features.unsqueeze(-2), delta]
        back = (delta @ weights[-2]).view_as(inputs[-1])
        for layer in range(self.depth, first - 1, -1):
            conv, output = self.convs[layer - 1], inputs[layer - first + 1]
            back = back * self.activation.slope(output)
            found.insert(0, conv.weight_gradient(inputs[layer - first], back))
            if layer > first:
                back = conv.transpose(back, weights[layer - 1], shapes[layer - 1])
        return found

    def with_activation(self, name: str) -> ConvNet:
        """The same layers with another activation."""
        return replace(self, activation=Activation(name))


def _table(*convs: tuple[int, int, int, int]) -> ConvNet:
    return ConvNet(tuple(Conv(*conv) for conv in convs))


#: Table 1: (kernel, channels, stride, padding) of every convolution
TABLE_1 = {
    "CNN2 V1": _table((3, 6, 1, 0)),
    "CNN2 V2": _table((4, 6, 2, 0)),
    "CNN3 V1": _table((3, 6, 1, 0), (4, 3, 2, 0)),
    "CNN3 V2": _table((4, 6, 2, 0), (3, 3, 2, 0)),
    "CNN3 V3": _table((3, 6, 1, 0), (3, 9, 1, 0)),
    "CNN3 V4": _table((3, 1, 1, 0), (3, 6, 1, 0)),
    "CNN4 V1": _table((3, 6, 1, 0), (4, 5, 2, 0), (4, 3, 1, 0)),
    "CNN4 V2": _table((5, 16, 1, 0), (5, 6, 2, 0), (5, 32, 1, 2)),
}
SEED = 10
