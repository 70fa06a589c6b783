"""Networks as pure functions of their parameters, so that attacks can differentiate in either argument.

A network is a frozen dataclass; its parameters θ are a plain dict of tensors.  Every operation broadcasts over leading
batch dimensions, in θ and x alike: (S, n, d) images and (S, h, d) weights are S independent networks on S data sets,
evaluated as one batched GEMM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError

Params = dict[str, Tensor]


@dataclass(frozen=True)
class MLP:
    """Fully connected network Φ(x; θ); eqs. (8), (9) of Runkel et al. (2024) and deeper ones.

    widths: (d, 1) is the affine classifier (8), (d, h, 1) has one hidden layer (9); a last width K > 1 gives K outputs
    instead of one logit · bias: which layers have one (default all) · smoothing: if set, ReLU is replaced by
    softplus(smoothing · z)/smoothing, which is twice differentiable and tends to ReLU as smoothing → ∞.

    Parameters: `w1` (h, d), `b1` (h,), … in order of the layers; leading batch dimensions allowed.
    """

    widths: tuple[int, ...]
    bias: tuple[bool, ...] | None = None
    smoothing: float | None = None

    def __post_init__(self) -> None:
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise ReconError(f"a network needs at least two widths, all positive, not {self.widths}")
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

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter tensor, in order."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (fan_in, fan_out) in enumerate(zip(self.widths, self.widths[1:], strict=False), start=1):
            shapes[f"w{layer}"] = (fan_out, fan_in)
            if self.bias is None or self.bias[layer - 1]:
                shapes[f"b{layer}"] = (fan_out,)
        return shapes

    @property
    def n_params(self) -> int:
        """Number of scalar parameters p."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def init(self, generator: torch.Generator, scheme: str = "default", dtype: torch.dtype = torch.float32) -> Params:
        """Draw θ⁰.

        scheme: "default" is PyTorch's U(±1/√fan_in); "uniform" draws every weight from U(0, 1) independently, as §4.3
        of Runkel et al. does for the inner problem; "small" is "default" but for the first layer, 1e-4 · N(0, 1), as in
        Haim et al. (2022).  Raises ReconError for another name.
        """
        if scheme not in ("default", "uniform", "small"):
            raise ReconError(f"unknown weight initialisation '{scheme}': choose default, uniform or small")
        theta = {}
        for name, shape in self.shapes().items():
            if scheme == "small" and name in ("w1", "b1"):
                theta[name] = 1e-4 * torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)
                continue
            u = torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)
            theta[name] = u if scheme == "uniform" else (2 * u - 1) / math.sqrt(self.widths[int(name[1:]) - 1])
        return theta

    def __call__(self, theta: Params, x: Tensor) -> Tensor:
        """Logits Φ(x; θ), shape (..., n), or (..., n, K) for K > 1 outputs, of flat images x, shape (..., n, d)."""
        for layer in range(1, self.depth + 1):
            x = x @ theta[f"w{layer}"].mT
            if f"b{layer}" in theta:
                x = x + theta[f"b{layer}"].unsqueeze(-2)
            if layer < self.depth:
                x = self.activation(x)
        return x.squeeze(-1) if self.widths[-1] == 1 else x

    def activation(self, z: Tensor) -> Tensor:
        """ReLU, or its smoothed variant."""
        return torch.relu(z) if self.smoothing is None else torch.nn.functional.softplus(z, beta=self.smoothing)

    def with_inputs(self, dim: int) -> MLP:
        """The same network on inputs of another length, e.g. coordinates in a subspace."""
        return MLP((dim, *self.widths[1:]), self.bias, self.smoothing)

    def flatten(self, theta: Params) -> Tensor:
        """θ as one vector, shape (..., p)."""
        return torch.cat([theta[name].flatten(-len(shape)) for name, shape in self.shapes().items()], dim=-1)

    def unflatten(self, vector: Tensor) -> Params:
        """Inverse of `flatten`; views, no copy.

        >>> theta = affine(2).unflatten(torch.tensor([1.0, 2.0, 3.0]))
        >>> theta["w1"].tolist(), theta["b1"].tolist()
        ([[1.0, 2.0]], [3.0])
        """
        sizes = [math.prod(shape) for shape in self.shapes().values()]
        pieces = vector.split(sizes, dim=-1)
        return {n: v.unflatten(-1, s) for (n, s), v in zip(self.shapes().items(), pieces, strict=True)}


def affine(dim: int = 3072) -> MLP:
    """Eq. (8): Φ(x; θ) = x θ_wᵀ + θ_b."""
    return MLP((dim, 1))


def one_hidden(width: int = 6144, dim: int = 3072, smoothing: float | None = None) -> MLP:
    """Eq. (9): Φ(x; θ) = σ(x θ_w1ᵀ + θ_b1) θ_w2ᵀ + θ_b2 with σ = ReLU; the paper's width is 6144."""
    return MLP((dim, width, 1), smoothing=smoothing)


def three_layer(width: int = 1000, dim: int = 3072, outputs: int = 1) -> MLP:
    """The net of Haim et al. (2022): three linear layers, a bias on the first only, hence homogeneous of degree 3.

    >>> three_layer(width=10, dim=4).shapes()
    {'w1': (10, 4), 'b1': (10,), 'w2': (10, 10), 'w3': (1, 10)}
    """
    return MLP((dim, width, width, outputs), bias=(True, False, False))
