"""R-GAP (Zhu & Blaschko 2021) as Chen & Campbell (2022) pose it: layer by layer, the minimum-norm
solution of U x = V.

From the output to the image: eq. (4) gives x_d, then for i = d … 1, with z_i = σ⁻¹(x_i) (2) and
∇_{z_i} ℓ (3),

    x_{i−1} = argmin ‖x‖  among the minimisers of  ‖U_i x − V_i‖,   U_i = [W_i; K_i],  V_i = [z_i; ∇_{W_i} ℓ].      (8)

*Last layer.* For z = W x + b the gradients are ∂ℓ/∂W_kj = (∂ℓ/∂z_k) x_j and ∂ℓ/∂b_k = ∂ℓ/∂z_k: a
ratio is the input (4). Without a bias x_j = (∂ℓ/∂W_kj)/(∂ℓ/∂z_k) (5), and ∂ℓ/∂z_k has to come from
elsewhere: from the softmax.

*Convolutions*, eqs. (1), (6), (7), sparse. For z = W x and the weight gradient K x = vec ∇_W ℓ,
with δ = ∇_z ℓ:

    W[(o, p), q] = w[o, t]   and   K[(o, t), q] = δ[o, p],   where tap t = (c, k, l) of output position p reads input q.

W has n_out rows, K as many as the kernel has weights. Everything is built from one table: which
input q tap t of position p reads, any kernel, stride and padding.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sparse
import torch
import torch.nn.functional as F
from torch import Tensor

from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet, ImageShape, Params, cross_entropy_direction
from recon.released import ONE_IMAGE, Gradient, rounding


def taps(conv: Conv, shape: ImageShape) -> np.ndarray:
    """Input index q read by tap t at position p, −1 in the padding; (c·k·k, positions)."""
    index = torch.arange(1, 1 + math.prod(shape), dtype=torch.float64).view(1, *shape)
    return (
        F.unfold(index, conv.kernel, padding=conv.padding, stride=conv.stride)[0].long().numpy() - 1
    )


def convolution_matrix(conv: Conv, weight: Tensor, shape: ImageShape) -> sparse.csr_array:
    """W of eq. (1a), (o·positions, c·h·w)."""
    return _reading(taps(conv, shape), weight, shape)


def gradient_matrix(conv: Conv, delta: Tensor, shape: ImageShape) -> sparse.csr_array:
    """K of eq. (1b), (o·c·k·k, c·h·w), from δ = ∇_z ℓ (o, positions) or (o, h', w')."""
    return _reading(taps(conv, shape).T, delta, shape)


def _reading(table: np.ndarray, values: Tensor, shape: ImageShape) -> sparse.csr_array:
    """M[(o, b), q] = values[o, a] where entry (a, b) of the table reads input q."""
    a, b = np.nonzero(table >= 0)
    channels = len(values)
    rows = np.arange(channels)[:, None] * table.shape[1] + b
    columns = np.broadcast_to(table[a, b], rows.shape)
    entries = values.double().cpu().numpy().reshape(channels, -1)[:, a]
    size = (channels * table.shape[1], math.prod(shape))
    return sparse.csr_array((entries.ravel(), (rows.ravel(), columns.ravel())), shape=size)


@dataclass(frozen=True)
class Stacked:
    """U = [W; K] of eq. (6), with W and K kept apart."""

    w: sparse.csr_array
    k: sparse.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, unknowns)."""
        return self.w.shape[0] + self.k.shape[0], self.w.shape[1]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """U x."""
        return np.concatenate([self.w @ x, self.k @ x])

    def adjoint(self, v: np.ndarray) -> np.ndarray:
        """Uᵀ v."""
        rows = self.w.shape[0]
        return self.w.T @ v[:rows] + self.k.T @ v[rows:]

    def dense(self) -> np.ndarray:
        """U, for small cases and tests."""
        return np.vstack([self.w.toarray(), self.k.toarray()])

    def full_rank(self) -> bool:
        """Whether U x = V has one solution at most: UᵀU − τI, τ = ε · trace, has a Cholesky factor.
        `generic_rank` is an upper bound only: pixels that no position reads are missing from it.
        """
        return self.shape[0] >= self.shape[1] and all_above(self.gram())[0]

    def gram(self) -> np.ndarray:
        """UᵀU or UUᵀ, whichever is smaller, dense. K has few rows with many entries: its part is a
        GEMM.
        """
        k = self.k.toarray()
        if self.shape[1] <= self.shape[0]:
            return (self.w.T @ self.w).toarray() + k.T @ k
        mixed = self.w @ k.T
        return np.block([[(self.w @ self.w.T).toarray(), mixed], [mixed.T, k @ k.T]])


def all_above(gram: np.ndarray) -> tuple[bool, float]:
    """Whether all eigenvalues of a matrix (k, k) are above τ = ε · trace, ε = 2.2e-16: whether it
    minus τI has a Cholesky factor; and τ.
    """
    threshold = np.finfo(np.float64).eps * np.trace(gram)
    try:
        scipy.linalg.cholesky(gram - threshold * np.eye(len(gram)), overwrite_a=True)
    except np.linalg.LinAlgError:
        return False, threshold
    return True, threshold


def systems(network: ConvNet, theta: Params, x: Tensor, labels: Tensor) -> list[Stacked]:
    """U_1 … U_d at one image x (1, c, h, w): what an attack would have to solve if it made no
    mistakes.
    """
    passes = network.layers(theta, x, cross_entropy_direction(labels))
    layers = zip(network.convs, passes, network.image_shapes(), strict=False)
    return [
        system_of(conv, theta[layer.weight], layer.delta[0], shape) for conv, layer, shape in layers
    ]


def system_of(conv: Conv, weight: Tensor, delta: Tensor, shape: ImageShape) -> Stacked:
    """U of one layer with weights (o, c, k, k) and δ = ∇_z ℓ (o, positions) or (o, h', w'), for
    inputs of `shape`.
    """
    return Stacked(convolution_matrix(conv, weight, shape), gradient_matrix(conv, delta, shape))


def generic_rank(conv: Conv, shape: ImageShape) -> int:
    """min(n_in, n_out + |W| − c_out²): an upper bound, reached by every layer of Table 1.

    Less where few positions read few pixels each (large strides, wide padding).

    The c_out² dependencies: Σ_p δ[o, p] W[(o', p), ·] = Σ_t w[o', t] K[(o, t), ·] for every pair
    (o, o').

    >>> generic_rank(Conv(kernel=4, channels=6, stride=2), (3, 32, 32)) - 3072  # rd_1 of CNN2 V2
    -1470
    """
    n_in, n_out = math.prod(shape), math.prod(conv.output(shape))
    weights = conv.channels * shape[0] * conv.kernel**2
    return min(n_in, n_out + weights - conv.channels**2)


def generic_deficiencies(network: ConvNet) -> list[int]:
    """rd_1 … rd_d by `generic_rank`.

    >>> from recon.nets.conv import Conv, ConvNet
    >>> generic_deficiencies(ConvNet((Conv(3, 12), Conv(3, 12, stride=2)), shape=(3, 16, 16)))
    [0, -768]
    """
    convs = zip(network.convs, network.image_shapes(), strict=False)
    return [generic_rank(conv, shape) - math.prod(shape) for conv, shape in convs]


def features_from_fully_connected(gradient: Gradient, check: bool = True) -> Tensor:
    """Eq. (4): x_j = (∂ℓ/∂W_kj)/(∂ℓ/∂b_k), (B, features), with the k of largest |∂ℓ/∂b_k|. Raises
    ReconError if no bias has a gradient, or (check) if the gradient is not that of a single image:
    then eq. (4) returns a mixture of the batch's features, weighted by their ∂ℓ/∂b_k.
    """
    matrix, bias = (gradient.gradients[name] for name in gradient.network.last)
    row = bias.abs().argmax(-1)
    images = torch.arange(len(row), device=row.device)
    if not (bias[images, row].abs() > 0).all():
        raise ReconError("the bias has no gradient: eq. (4) cannot be solved")
    features = matrix[images, row] / bias[images, row, None]
    others = (matrix - bias.unsqueeze(-1) * features.unsqueeze(-2)).flatten(1).norm(dim=1)
    close = max(ONE_IMAGE, rounding(gradient.gradients))
    if check and (others > close * matrix.flatten(1).norm(dim=1)).any():
        raise ReconError(
            "this is the gradient of more than one image (or a noisy one): eq. (4) needs a batch"
            " of one"
        )
    return features


def logit_gradients(weight: Tensor, gradient: Tensor, label: int) -> Tensor:
    """∂ℓ/∂z (K,) of a last layer that releases no gradient of a bias, so that eq. (5) gives its
    input.

    The gradient G (K, F) is δ xᵀ with δ = softmax(z) − e_label, z = W x. Its leading singular
    vectors are δ and x up to one factor s: x = s u, δ = v/s. For classes k other than the label δ_k
    = exp(z_k)/Σ exp(z), and so

        log |v_k| = s (W u)_k + constant,

    a straight line through K − 1 points: s is its slope.

    weight W (K, F), K ≥ 3. ReconError for a gradient of more than one image, or of none.
    """
    left, values, right = torch.linalg.svd(gradient.double(), full_matrices=False)
    if len(values) > 1 and values[1] > ONE_IMAGE * values[0]:
        raise ReconError(
            "this is the gradient of more than one image (or a noisy one): eq. (5) needs a batch"
            " of one"
        )
    v, along = values[0] * left[:, 0], weight.double() @ right[0]
    classes = torch.arange(len(v), device=v.device)
    others = (classes != label) & (v.abs() > torch.finfo(v.dtype).tiny)
    if int(others.sum()) < 2:
        raise ReconError("eq. (5) without a bias needs at least three classes with a gradient")
    height, place = v[others].abs().log(), along[others]
    height, place = height - height.mean(), place - place.mean()
    delta = (height @ place / (place @ place) * along).softmax(0)
    delta[label] -= 1
    return delta


# of the Gram matrix's mean diagonal, for its factorisation; refinement takes its effect away
RIDGE = 1e-12


def minimum_norm(system: Stacked, v: np.ndarray) -> np.ndarray:
    """The minimum-norm least-squares solution of U x = v, by iterated Tikhonov regularisation. x ←
    x + (UᵀU + μI)⁻¹ Uᵀ (v − U x) from x = 0, or with Uᵀ(UUᵀ + μI)⁻¹ if that is smaller, converges
    to it for every μ > 0, whatever the rank (Engl, Hanke & Neubauer 1996); with this tiny μ within
    a few steps. One Cholesky factor.
    """
    gram = system.gram()
    ridge = RIDGE * np.trace(gram) / len(gram)
    gram[np.diag_indices(len(gram))] += ridge
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    tall = system.shape[1] <= system.shape[0]
    x = np.zeros(system.shape[1])
    last = float("inf")
    for _ in range(100):
        residual = v - system.apply(x)
        if tall:
            change = scipy.linalg.cho_solve(factor, system.adjoint(residual), check_finite=False)
        else:
            # what U cannot reach would be divided by μ and drown the rest in rounding
            for _ in range(2):
                residual = residual - ridge * scipy.linalg.cho_solve(
                    factor, residual, check_finite=False
                )
            change = system.adjoint(scipy.linalg.cho_solve(factor, residual, check_finite=False))
        size = float(np.linalg.norm(change))
        if size >= last:  # rounding has taken over
            break
        x, last = x + change, size
        if size <= 1e-14 * np.linalg.norm(x):
            break
    return x


@dataclass(frozen=True)
class LayerSystem:
    """Layer i on the way back, and its linear system in x_{i−1}: of one image's gradient in float64
    on the CPU, where SciPy solves.

    Attributes:
        layer: i.
        output: x_i (1, c, h, w).
        back: ∂ℓ/∂x_i.
    """

    gradient: Gradient
    layer: int
    output: Tensor
    back: Tensor

    @staticmethod
    def last(gradient: Gradient, check: bool = True) -> LayerSystem:
        """Of layer d, by eq. (4); ReconError for several images."""
        if len(gradient.labels) != 1:
            raise ReconError(f"layer by layer goes one image at a time, not {len(gradient.labels)}")
        gradient = gradient.to(torch.float64, "cpu")
        network, (weight, bias) = gradient.network, gradient.network.last
        features = features_from_fully_connected(gradient, check)
        x = features.view(1, *network.image_shapes()[-1])
        back = gradient.gradients[bias] @ gradient.theta[weight]  # ∂ℓ/∂b = ∇_logits ℓ
        return LayerSystem(gradient, network.depth, x, back.view_as(x))

    @property
    def z(self) -> Tensor:
        """z_i."""
        return self.gradient.network.activation.inverse(self.output)

    @property
    def delta(self) -> Tensor:
        """∇_{z_i} ℓ."""
        return self.back * self.gradient.network.activation.slope(self.output)

    @property
    def system(self) -> Stacked:
        """U_i."""
        conv, weight, shape = self._parts
        return system_of(conv, weight, self.delta[0], shape)

    @property
    def v(self) -> np.ndarray:
        """V_i."""
        blocks = self.z, self.gradient.gradients[f"w{self.layer}"]
        return torch.cat([block.flatten() for block in blocks]).numpy()

    @cached_property
    def x(self) -> Tensor:
        """x_{i−1} by minimum norm (1, c, h, w)."""
        return torch.from_numpy(minimum_norm(self.system, self.v)).view(1, *self._parts[2])

    def before(self, x: Tensor) -> LayerSystem:
        """Of layer i − 1, from its output x_{i−1}."""
        conv, weight, shape = self._parts
        back = conv.transpose(self.delta, weight, shape)
        return LayerSystem(self.gradient, self.layer - 1, x, back)

    @property
    def _parts(self) -> tuple[Conv, Tensor, ImageShape]:
        """Its convolution, the weights, and the shape of x_{i−1}."""
        network, k = self.gradient.network, self.layer - 1
        return network.convs[k], self.gradient.theta[f"w{self.layer}"], network.image_shapes()[k]


def layer_by_layer(
    gradient: Gradient, check: bool = True
) -> Generator[LayerSystem, Tensor | None, None]:
    """The layers d … 1 of one image's gradient, each from the one before. A caller may `send` a
    better x_{i−1}: the next layer goes on from that (`Hybrid`).

    Args:
        check: refuse gradients of more than one image.
    """
    at = LayerSystem.last(gradient, check)
    while at.layer:
        better = yield at
        at = at.before(at.x if better is None else better.to(at.x))


def rgap(gradient: Gradient, check: bool = True) -> Tensor:
    """The image (1, c, h, w) by R-GAP, float64. ReconError for ReLU, and (check) for gradients of
    several images.
    """
    layers = list(layer_by_layer(gradient, check))
    if not layers:
        raise ReconError("the network has no convolution: eq. (4) alone gives the image")
    return layers[-1].x.to(gradient.labels.device)
