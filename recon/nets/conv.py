"""The convolutional networks of Table 1 of Chen & Campbell (2022), as functions of their weights.

Convolutions without bias, each followed by an activation, then one fully connected layer with bias and cross-entropy.
Layers are numbered 1 … d; x_0 is the image, z_i = W_i x_{i−1}, x_i = σ(z_i).
"""

from __future__ import annotations

import math
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
        h, w = ((side + 2 * self.padding - self.kernel) // self.stride + 1 for side in shape[1:])
        if min(self.kernel, self.channels, self.stride) < 1 or self.padding < 0 or min(h, w) < 1:
            raise ReconError(f"a convolution {self} does not fit an input of {shape}")
        return self.channels, h, w

    def apply(self, x: Tensor, weight: Tensor) -> Tensor:
        """z = W x, (B, c, h, w) -> (B, o, h', w')."""
        return F.conv2d(x, weight, stride=self.stride, padding=self.padding)

    def transpose(self, delta: Tensor, weight: Tensor, shape: tuple[int, int, int]) -> Tensor:
        """Wᵀ δ, back to (B, *shape); also where (h + 2p − k) is no multiple of the stride."""
        rest = [(side + 2 * self.padding - self.kernel) % self.stride for side in shape[1:]]
        return F.conv_transpose2d(delta, weight, stride=self.stride, padding=self.padding, output_padding=rest)

    def patches(self, x: Tensor) -> Tensor:
        """What every tap reads at every position, (B, c, h, w) -> (B, c·k·k, h'·w')."""
        return F.unfold(x, self.kernel, padding=self.padding, stride=self.stride)


@dataclass(frozen=True)
class Chain:
    """One forward and one backward pass of B images from layer `first` on, layer by layer in order.

    patches: of x_{i−1} (B, c·k·k, positions) · x: x_i (B, o, h', w') · z: (B, o, positions) · delta: ∇_{z_i} ℓ (as x)
    · features: x_d (B, features) · output_delta: ∇_logits ℓ (B, classes).
    """

    patches: list[Tensor]
    z: list[Tensor]
    x: list[Tensor]
    delta: list[Tensor]
    features: Tensor
    output_delta: Tensor

    def convolutions(self) -> list[Tensor]:
        """∇_{W_i} ℓ = K_i x_{i−1} = δ_i · patches of every image by itself, (B, o, c·k·k) each."""
        return [delta.flatten(2) @ patches.mT for delta, patches in zip(self.delta, self.patches, strict=True)]

    def gradients(self) -> list[Tensor]:
        """Those, and the fully connected layer's, (B, classes, features) and (B, classes)."""
        outer = self.output_delta.unsqueeze(-1) * self.features.unsqueeze(-2)
        return [*self.convolutions(), outer, self.output_delta]


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
        shapes, generator = self.shapes(), torch.Generator().manual_seed(seed)
        sizes: list[tuple[int, ...]] = [
            (conv.channels, shape[0], conv.kernel, conv.kernel) for conv, shape in zip(self.convs, shapes, strict=False)
        ]
        features = math.prod(shapes[-1])
        weights = [torch.empty(size) for size in (*sizes, (self.classes, features))]
        for weight in weights:
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
        bias = torch.empty(self.classes)
        nn.init.uniform_(bias, -1 / math.sqrt(features), 1 / math.sqrt(features), generator=generator)
        return [*weights, bias]

    def logits(self, weights: list[Tensor], x: Tensor) -> Tensor:
        """(B, c, h, w) -> (B, classes)."""
        for conv, weight in zip(self.convs, weights, strict=False):
            x = self.activation(conv.apply(x, weight))
        return F.linear(x.flatten(1), *weights[-2:])

    def chain(self, weights: list[Tensor], x: Tensor, labels: Tensor, first: int = 1) -> Chain:
        """Layers `first` … d and the fully connected one with cross-entropy, as functions of x_{first−1} (B, …).

        Written out, so that one backward pass through it gives what gradient matching needs; each x_{i−1} is unfolded
        once, for its convolution, its weight gradient and (`GradientMatching`) its linear system."""
        shapes = self.shapes()
        patches, z, outputs = [], [], []
        for i in range(first, self.depth + 1):
            patches.append(self.convs[i - 1].patches(x))
            z.append(weights[i - 1].flatten(1) @ patches[-1])
            x = self.activation(z[-1]).view(len(x), *shapes[i])
            outputs.append(x)
        features = x.flatten(1)
        output_delta = F.linear(features, *weights[-2:]).softmax(-1) - F.one_hot(labels, self.classes).to(x.dtype)
        back = (output_delta @ weights[-2]).view_as(x)
        delta: list[Tensor] = []
        for i in range(self.depth, first - 1, -1):
            delta.insert(0, back * self.activation.slope(outputs[i - first]))
            if i > first:
                back = self.convs[i - 1].transpose(delta[0], weights[i - 1], shapes[i - 1])
        return Chain(patches, z, outputs, delta, features, output_delta)

    def gradients(self, weights: list[Tensor], x: Tensor, labels: Tensor) -> list[Tensor]:
        """Per-image gradients of the cross-entropy: [(B, o, c·k·k), …, (B, classes, features), (B, classes)]."""
        return self.chain(weights, x, labels).gradients()

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
