"""Derivatives of a chain of convolutions and of its weight gradients by the image, in sparse matrices.

An entry of a convolution's output depends on few pixels, and so does an entry of what is sent back through it.  Forward
or reverse mode would compute all the zeros.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from torch import Tensor

from recon.attacks.operators import convolution_matrix, gradient_matrix
from recon.nets.conv import ConvNet
from recon.nets.network import Params

Matrices = list[tuple[sparse.csr_array, sparse.csr_array]]


def convolution_matrices(network: ConvNet, theta: Params, depth: int) -> Matrices:
    """A_j and A_jᵀ of the first `depth` convolutions, which do not depend on the image."""
    shapes = network.image_shapes()
    found = [convolution_matrix(network.convs[j], theta[f"w{j + 1}"], shapes[j]).tocsr() for j in range(depth)]
    return [(matrix, matrix.T.tocsr()) for matrix in found]


def chain_jacobian(network: ConvNet, theta: Params, x: Tensor, back: Tensor, matrices: Matrices) -> list[np.ndarray]:
    """∂x_i/∂x and ∂(∇_{W_1} ℓ)/∂x … ∂(∇_{W_i} ℓ)/∂x, each (entries, c·h·w), for the first i convolutions.

    x (c·h·w,): the image, float64 · back (c_i, h_i, w_i): ∂ℓ/∂x_i, which is held fixed · matrices: of i convolutions.
    Forwards, with A_j the matrix of convolution j, z_j = A_j x_{j−1} and dx_j = σ'(z_j) A_j dx_{j−1}.  Backwards, from
    b_i = back and db_i = 0,

        δ_j = b_j σ'(z_j),   dδ_j = db_j σ'(z_j) + b_j dσ'(z_j),
        d∇_{W_j} ℓ = K(δ_j) dx_{j−1} + dδ_j · patches(x_{j−1})ᵀ,   b_{j−1} = A_jᵀ δ_j,   db_{j−1} = A_jᵀ dδ_j,

    K of eq. (1b).
    """
    shapes, activation = network.image_shapes(), network.activation
    images, tangents = [x.view(shapes[0])], [sparse.eye_array(len(x), format="csr")]
    for j, (matrix, _) in enumerate(matrices, 1):
        images.append(activation(network.convs[j - 1].apply(images[-1][None], theta[f"w{j}"]))[0])
        tangents.append(_scaled(activation.slope(images[-1]), matrix @ tangents[-1]))
    found: list[np.ndarray] = []
    dback = sparse.csr_array(tangents[-1].shape)
    for j in range(len(matrices), 0, -1):
        conv, (before, image), (dbefore, dimage) = network.convs[j - 1], images[j - 1 : j + 1], tangents[j - 1 : j + 1]
        slope = activation.slope(image)
        delta = back * slope
        ddelta = _scaled(slope, dback) + _scaled(back * activation.bend(image), dimage)
        taps = conv.patches(before[None])[0].numpy()
        moved = [taps @ channel.toarray() for channel in _split(ddelta, conv.channels)]
        found.insert(0, np.concatenate(moved) + gradient_matrix(conv, delta, shapes[j - 1]) @ dbefore)
        if j > 1:
            back = conv.transpose(delta[None], theta[f"w{j}"], shapes[j - 1])[0]
            dback = matrices[j - 1][1] @ ddelta
    return [tangents[-1].toarray(), *found]


def _scaled(values: Tensor, matrix: sparse.csr_array) -> sparse.csr_array:
    """Every row times its value: a diagonal matrix in front, without the product of two sparse matrices."""
    each = np.repeat(values.flatten().numpy(), np.diff(matrix.indptr))
    return sparse.csr_array((matrix.data * each, matrix.indices, matrix.indptr), shape=matrix.shape)


def _split(matrix: sparse.sparray, parts: int) -> list[sparse.csr_array]:
    """By rows, into as many of equal height."""
    rows, height = matrix.tocsr(), matrix.shape[0] // parts
    return [rows[k * height : (k + 1) * height] for k in range(parts)]


__all__ = ["Matrices", "chain_jacobian", "convolution_matrices"]
