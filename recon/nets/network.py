"""What an attack asks of a network: parameters, a forward pass, and each layer's input with the
gradient at its output.

A linear layer z = W h + b has ∇_W Φ(x_i) = δ_i h_iᵀ with h_i its input and δ_i = ∂Φ(x_i)/∂z. From
these pairs alone come per-image gradients, their Gram matrices, the stationarity objective, and the
linear systems of gradient attacks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Params = dict[str, Tensor]
Shape = tuple[int, ...]
#: name -> shape of a tensor
Shapes = dict[str, Shape]
#: outputs (..., n, K) -> ∂Φ/∂outputs (..., n, K) of the scalar Φ whose gradients are wanted
Direction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerPass:
    """One linear layer in one forward and one backward pass of n images.

    Attributes:
        weight, bias: its names in θ (no bias: None).
        input: h (..., n, in), of a convolution its patches (..., n, in, positions).
        delta: ∂Φ/∂z (..., n, out), of a convolution (..., n, out, positions).
        shared: whether the weights are shared between positions, as in a convolution.
    """

    weight: str
    bias: str | None
    input: Tensor
    delta: Tensor
    shared: bool = False


class Flat:
    """θ as one vector, of a network with `shapes`."""

    def shapes(self) -> Shapes:
        """Name -> shape of every parameter tensor, in order."""
        raise NotImplementedError

    @property
    def n_params(self) -> int:
        """Number of scalar parameters p."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def flatten(self, theta: Params) -> Tensor:
        """θ as one vector, shape (..., p)."""
        return torch.cat(
            [theta[name].flatten(-len(shape)) for name, shape in self.shapes().items()], dim=-1
        )

    def unflatten(self, vector: Tensor) -> Params:
        """Inverse of `flatten`; views, no copy.

        >>> from recon.nets.mlp import affine
        >>> theta = affine(2).unflatten(torch.tensor([1.0, 2.0, 3.0]))
        >>> theta["w1"].tolist(), theta["b1"].tolist()
        ([[1.0, 2.0]], [3.0])
        """
        sizes = [math.prod(shape) for shape in self.shapes().values()]
        pieces = vector.split(sizes, dim=-1)
        return {
            n: v.unflatten(-1, s) for (n, s), v in zip(self.shapes().items(), pieces, strict=True)
        }
