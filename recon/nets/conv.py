"""Convolutional networks as functions of their parameters θ, as Chen & Campbell (2022) attack them.

Convolutions without bias, each followed by an activation, then one fully connected layer with bias
and cross-entropy. Layers are numbered 1 … d; x_0 is the image, z_i = W_i x_{i−1}, x_i = σ(z_i).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.gram import per_image_gradients
from recon.nets.network import Direction, LayerPass, Params, Shapes

ImageShape = tuple[int, int, int]  # (c, h, w)
SLOPE = 0.01  # of LeakyReLU for z < 0, PyTorch's default
CLIP = 0.9999  # |tanh| beyond this is clipped: training-data-leakage@beb50470 hybrid.py:87


@dataclass(frozen=True)
class Activation:
    """σ, σ'(z) from the output x = σ(z), and σ⁻¹ where there is one."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in ("tanh", "leaky_relu", "relu"):
            raise ReconError(
                f"unsupported activation '{self.name}': choose tanh, leaky_relu or relu"
            )

    def __call__(self, z: Tensor) -> Tensor:
        if self.name == "tanh":
            return torch.tanh(z)
        return F.leaky_relu(z, SLOPE) if self.name == "leaky_relu" else F.relu(z)

    def slope(self, x: Tensor) -> Tensor:
        """σ'(z) as a function of x = σ(z)."""
        if self.name == "tanh":
            return 1 - x.square()
        low = SLOPE if self.name == "leaky_relu" else 0.0
        return torch.where(x > 0, torch.ones_like(x), torch.full_like(x, low))

    def bend(self, x: Tensor) -> Tensor:
        """dσ'/dx, σ' as a function of x = σ(z)."""
        return -2 * x if self.name == "tanh" else torch.zeros_like(x)

    def inverse(self, x: Tensor) -> Tensor:
        """Eq. (2); ReconError for ReLU, which forgets. So does a unit of tanh that is ±1 to
        rounding: its z is clipped.
        """
        if self.name == "tanh":
            return torch.atanh(torch.where(x.abs() < 1, x, x.sign() * CLIP))
        if self.name == "relu":
            raise ReconError(
                "ReLU is not invertible: layer-by-layer attacks need tanh or leaky_relu"
            )
        return torch.where(x > 0, x, x / SLOPE)


@dataclass(frozen=True)
class Conv:
    """One convolution: kernel side, output channels, stride, padding."""

    kernel: int
    channels: int
    stride: int = 1
    padding: int = 0

    def output(self, shape: ImageShape) -> ImageShape:
        """(c, h, w) of the input -> of the output; ReconError if the kernel does not fit."""
        h, w = ((side + 2 * self.padding - self.kernel) // self.stride + 1 for side in shape[1:])
        if min(self.kernel, self.channels, self.stride) < 1 or self.padding < 0 or min(h, w) < 1:
            raise ReconError(f"a convolution {self} does not fit an input of {shape}")
        return self.channels, h, w

    def apply(self, x: Tensor, weight: Tensor) -> Tensor:
        """z = W x, (B, c, h, w) -> (B, o, h', w')."""
        return F.conv2d(x, weight, stride=self.stride, padding=self.padding)

    def transpose(self, delta: Tensor, weight: Tensor, shape: ImageShape) -> Tensor:
        """Wᵀ δ, back to (B, *shape); also where (h + 2p − k) is no multiple of the stride."""
        unread = [(side + 2 * self.padding - self.kernel) % self.stride for side in shape[1:]]
        return F.conv_transpose2d(
            delta, weight, stride=self.stride, padding=self.padding, output_padding=unread
        )

    def patches(self, x: Tensor) -> Tensor:
        """What every tap reads at every position, (B, c, h, w) -> (B, c·k·k, h'·w')."""
        return F.unfold(x, self.kernel, padding=self.padding, stride=self.stride)


@dataclass(frozen=True)
class ConvNet:
    """d convolutions, an activation after each, and a fully connected layer to `classes` logits.
    Parameters: `w1` (o, c, k, k), …, `wd`, then the fully connected `w{d+1}` (classes, features),
    `b{d+1}` (classes,).
    """

    convs: tuple[Conv, ...]
    shape: ImageShape = (3, 32, 32)
    classes: int = 10
    activation: Activation = Activation("tanh")

    @property
    def depth(self) -> int:
        """d, the number of convolutions."""
        return len(self.convs)

    @property
    def last(self) -> tuple[str, str]:
        """Names of the fully connected layer's weight and bias in θ."""
        return f"w{self.depth + 1}", f"b{self.depth + 1}"

    def image_shapes(self) -> list[ImageShape]:
        """(c, h, w) of x_0 … x_d; ReconError if a kernel does not fit."""
        shapes = [self.shape]
        for conv in self.convs:
            shapes.append(conv.output(shapes[-1]))
        return shapes

    def shapes(self) -> Shapes:
        """Name -> shape of every parameter tensor, in order."""
        images = self.image_shapes()
        shapes: Shapes = {}
        for i, conv in enumerate(self.convs, start=1):
            shapes[f"w{i}"] = (conv.channels, images[i - 1][0], conv.kernel, conv.kernel)
        weight, bias = self.last
        return {**shapes, weight: (self.classes, math.prod(images[-1])), bias: (self.classes,)}

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Params:
        """θ with PyTorch's default initialisation, the numbers its own layers draw from that
        generator. Drawn in float32, as in hybrid.py:611, and then converted to `dtype`.
        """
        shapes, (weight, bias) = self.shapes(), self.last
        theta = {name: torch.empty(shape) for name, shape in shapes.items()}
        for name in shapes:
            if name != bias:
                nn.init.kaiming_uniform_(theta[name], a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(shapes[weight][1])
        nn.init.uniform_(theta[bias], -bound, bound, generator=generator)
        return {name: tensor.to(dtype) for name, tensor in theta.items()}

    def __call__(self, theta: Params, x: Tensor) -> Tensor:
        """Logits (B, classes) of images x (B, c, h, w)."""
        for i, conv in enumerate(self.convs, start=1):
            x = self.activation(conv.apply(x, theta[f"w{i}"]))
        weight, bias = self.last
        return F.linear(x.flatten(1), theta[weight], theta[bias])

    def chain(
        self,
        theta: Params,
        x: Tensor,
        direction: Direction,
        first: int = 1,
        last: int | None = None,
    ) -> tuple[list[LayerPass], list[Tensor]]:
        """Layers `first` … d and the fully connected one, as functions of x_{first−1} (B, c, h, w),
        and z of the convolutions; or up to x_last alone, of which `direction` gives ∂ℓ/∂x_last.
        Written out, so that one backward pass through it gives what gradient matching needs; each
        x_{i−1} is unfolded once, for its convolution, its weight gradient and (`GradientMatching`)
        its linear system.
        """
        shapes, convolutions = self.image_shapes(), range(first, (last or self.depth) + 1)
        layers: list[LayerPass] = []
        patches, z, outputs = [], [], []
        for i in convolutions:
            patches.append(self.convs[i - 1].patches(x))
            z.append(theta[f"w{i}"].flatten(1) @ patches[-1])
            x = self.activation(z[-1]).view(len(x), *shapes[i])
            outputs.append(x)
        if last is None:
            features, (weight, bias) = x.flatten(1), self.last
            delta = direction(F.linear(features, theta[weight], theta[bias]))
            layers.append(LayerPass(weight, bias, features, delta))
            back = (delta @ theta[weight]).view_as(x)
        else:
            back = direction(x)
        for i in reversed(convolutions):
            delta = back * self.activation.slope(outputs[i - first])
            layers.insert(
                0, LayerPass(f"w{i}", None, patches[i - first], delta.flatten(2), shared=True)
            )
            if i > first:
                back = self.convs[i - 1].transpose(delta, theta[f"w{i}"], shapes[i - 1])
        return layers, z

    def layers(self, theta: Params, x: Tensor, direction: Direction) -> list[LayerPass]:
        """Every layer from the input to the output: input (B, c·k·k, positions) and delta (B, o,
        positions) of a convolution, (B, features) and (B, classes) of the last.
        """
        return self.chain(theta, x, direction)[0]

    def gradients(self, theta: Params, x: Tensor, labels: Tensor) -> Params:
        """∇_θ ℓ of each image's own cross-entropy: named as θ, each tensor with a leading dimension
        B.
        """
        layers = self.layers(theta, x, cross_entropy_direction(labels))
        gradients = per_image_gradients(layers)
        return {name: gradients[name].view(-1, *shape) for name, shape in self.shapes().items()}


def cross_entropy_direction(labels: Tensor) -> Direction:
    """∂ℓ/∂logits = softmax − e_y, the cross-entropy ℓ of each image by itself; labels (B,)."""
    return lambda logits: logits.softmax(-1) - F.one_hot(labels, logits.shape[-1]).to(logits.dtype)
