"""Networks as pure functions of their parameters, so that attacks can differentiate in either
argument.

A network is a frozen dataclass; its parameters θ are a plain dict of tensors. Every operation
broadcasts over leading batch dimensions, in θ and x alike: (S, n, d) images and (S, h, d) weights
are S independent networks on S data sets, evaluated as one batched GEMM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.network import Direction, Flat, Params, Shapes


@dataclass(frozen=True)
class Passes:
    """One forward and one backward pass of an `MLP`: lists over l = 0 … L, where entry 0 is the
    input's. None where there is nothing.

    Attributes:
        z: z_l = W_l h_{l−1} + b_l.
        h: h_l = σ(z_l), h_0 = x, up to L − 1.
        slope: σ'(z_l), up to L − 1.
        reached: δ_{l+1} W_{l+1}, what reaches h_l, up to L − 1.
        delta: δ_l = ∂Φ/∂z_l.
    """

    z: list
    h: list
    slope: list
    reached: list
    delta: list


@dataclass(frozen=True)
class MLP(Flat):
    """Fully connected network Φ(x; θ); eqs. (8), (9) of Runkel et al. (2024) and deeper ones.

    Parameters: `w1` (h, d), `b1` (h,), … in order of the layers; leading batch dimensions allowed.

    Attributes:
        widths: (d, 1) is the affine classifier (8), (d, h, 1) has one hidden layer (9); a last
            width K > 1 gives K outputs instead of one logit.
        bias: which layers have one (default all).
        smoothing: if set, ReLU is replaced by softplus(smoothing · z)/smoothing, which is twice
            differentiable and tends to ReLU as smoothing → ∞.
    """

    widths: tuple[int, ...]
    bias: tuple[bool, ...] | None = None
    smoothing: float | None = None

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise ReconError(
                f"a network needs at least two widths, all positive, not {self.widths}"
            )
        if self.bias is not None and len(self.bias) != self.depth:
            raise ReconError(f"bias must name {self.depth} layers, not {len(self.bias)}")

    @property
    def depth(self) -> int:
        """Number of linear layers."""
        return len(self.widths) - 1

    @property
    def dim(self) -> int:
        """Number of inputs d."""
        return self.widths[0]

    @property
    def names(self) -> list[tuple[str, str | None]]:
        """Names in θ of every layer's weight and bias (None: it has none), from the input to the
        output.

        >>> three_layer(width=10, dim=4).names
        [('w1', 'b1'), ('w2', None), ('w3', None)]
        """
        biases = self.bias or (True,) * self.depth
        return [
            (f"w{layer}", f"b{layer}" if bias else None)
            for layer, bias in enumerate(biases, start=1)
        ]

    def shapes(self) -> Shapes:
        """Name -> shape of every parameter tensor, in order."""
        shapes: Shapes = {}
        for (weight, bias), fan_in, fan_out in zip(
            self.names, self.widths[:-1], self.widths[1:], strict=True
        ):
            shapes[weight] = (fan_out, fan_in)
            if bias:
                shapes[bias] = (fan_out,)
        return shapes

    def init(
        self,
        generator: torch.Generator,
        scheme: str = "default",
        dtype: torch.dtype = torch.float32,
    ) -> Params:
        """Draw θ⁰. Raises ReconError for another name.

        Args:
            scheme: "default" is PyTorch's U(±1/√fan_in); "uniform" draws every weight from U(0, 1)
                independently, as §4.3 of Runkel et al. does for the inner problem; "small" is
                "default" but for the first layer, 1e-4 · N(0, 1), as in Haim et al. (2022).
        """
        if scheme not in ("default", "uniform", "small"):
            raise ReconError(
                f"unknown weight initialisation '{scheme}': choose default, uniform or small"
            )
        shapes, theta = self.shapes(), {}
        for layer, (names, fan_in) in enumerate(zip(self.names, self.widths[:-1], strict=True)):
            small = scheme == "small" and layer == 0
            draw = torch.randn if small else torch.rand
            for name in filter(None, names):
                u = draw(shapes[name], generator=generator, dtype=dtype, device=generator.device)
                if small:
                    u = 1e-4 * u
                elif scheme != "uniform":
                    u = (2 * u - 1) / math.sqrt(fan_in)
                theta[name] = u
        return theta

    def __call__(self, theta: Params, x: Tensor) -> Tensor:
        """Logits Φ(x; θ), shape (..., n), or (..., n, K) for K > 1 outputs, of flat images x, shape
        (..., n, d).
        """
        for layer, (weight, bias) in enumerate(self.names, start=1):
            x = x @ theta[weight].mT
            if bias:
                x = x + theta[bias].unsqueeze(-2)
            if layer < self.depth:
                x = self.activation(x)
        return x.squeeze(-1) if self.widths[-1] == 1 else x

    def passes(
        self, theta: Params, x: Tensor, direction: Direction, *, alpha: float | None = None
    ) -> Passes:
        """Both passes of images x (..., n, d): δ_L = direction(z_L), δ_l = (δ_{l+1} W_{l+1}) ⊙
        σ'(z_l). A net with `smoothing` has a derivative of its own, and alpha does not count.

        Args:
            alpha: the derivative of ReLU is taken to be sigmoid(alpha · z); None: the step itself.
        """
        z: list = [None]
        slope: list = [None]
        h = [x]
        for layer, (weight, bias) in enumerate(self.names, start=1):
            out = h[-1] @ theta[weight].mT
            if bias:
                out = out + theta[bias].unsqueeze(-2)
            z.append(out)
            if layer < self.depth:
                h.append(self.activation(out))
                slope.append(self.slope(out, alpha))
        delta: list = [None] * self.depth + [direction(z[-1])]
        reached: list = [None] * self.depth
        for layer in range(self.depth - 1, 0, -1):
            reached[layer] = delta[layer + 1] @ theta[self.names[layer][0]]
            delta[layer] = reached[layer] * slope[layer]
        return Passes(z, h, slope, reached, delta)

    def slope(self, z: Tensor, alpha: float | None = None) -> Tensor:
        """σ'(z): of ReLU the step or, with alpha, sigmoid(alpha · z); of smoothed ReLU its own."""
        alpha = alpha if self.smoothing is None else self.smoothing
        return (z > 0).to(z.dtype) if alpha is None else torch.sigmoid(alpha * z)

    def activation(self, z: Tensor) -> Tensor:
        """ReLU, or its smoothed variant."""
        return (
            torch.relu(z)
            if self.smoothing is None
            else torch.nn.functional.softplus(z, beta=self.smoothing)
        )

    def with_inputs(self, dim: int) -> MLP:
        """The same network on inputs of another length, e.g. coordinates in a subspace."""
        return MLP((dim, *self.widths[1:]), self.bias, self.smoothing)


def affine(dim: int) -> MLP:
    """Eq. (8): Φ(x; θ) = x θ_wᵀ + θ_b."""
    return MLP((dim, 1))


def one_hidden(width: int, dim: int, smoothing: float | None = None) -> MLP:
    """Eq. (9): Φ(x; θ) = σ(x θ_w1ᵀ + θ_b1) θ_w2ᵀ + θ_b2 with σ = ReLU; the paper's width is
    6144.
    """
    return MLP((dim, width, 1), smoothing=smoothing)


def three_layer(width: int, dim: int, outputs: int = 1) -> MLP:
    """The net of Haim et al. (2022): three linear layers, a bias on the first only, hence
    homogeneous of degree 3.

    >>> three_layer(width=10, dim=4).shapes()
    {'w1': (10, 4), 'b1': (10,), 'w2': (10, 10), 'w3': (1, 10)}
    """
    return MLP((dim, width, width, outputs), bias=(True, False, False))
