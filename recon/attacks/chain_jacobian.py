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


def chain_jacobian(network: ConvNet, theta: Params, x: Tensor, back: Tensor) -> list[np.ndarray]:
    """∂x_i/∂x and ∂(∇_{W_1} ℓ)/∂x … ∂(∇_{W_i} ℓ)/∂x, each (entries, c·h·w), for the first i convolutions.

    x (c·h·w,): the image, float64 · back (c_i, h_i, w_i): ∂ℓ/∂x_i, which is held fixed; its shape says what i is.
    Forwards, with A_j the matrix of convolution j, z_j = A_j x_{j−1} and dx_j = σ'(z_j) A_j dx_{j−1}.  Backwards, from
    b_i = back and db_i = 0,

        δ_j = b_j σ'(z_j),   dδ_j = db_j σ'(z_j) + b_j dσ'(z_j),
        d∇_{W_j} ℓ = K(δ_j) dx_{j−1} + dδ_j · patches(x_{j−1})ᵀ,   b_{j−1} = A_jᵀ δ_j,   db_{j−1} = A_jᵀ dδ_j,

    K of eq. (1b).
    """
    shapes, activation = network.image_shapes(), network.activation
    images, tangents, matrices = [x.view(shapes[0])], [sparse.eye_array(len(x), format="csr")], []
    while images[-1].shape != back.shape:
        j = len(images)
        conv, weight = network.convs[j - 1], theta[f"w{j}"]
        matrices.append(convolution_matrix(conv, weight, shapes[j - 1]))
        images.append(activation(conv.apply(images[-1][None], weight))[0])
        tangents.append(_diagonal(activation.slope(images[-1])) @ (matrices[-1] @ tangents[-1]))
    found: list[np.ndarray] = []
    dback = sparse.csr_array(tangents[-1].shape)
    for j in range(len(matrices), 0, -1):
        conv, (before, image), (dbefore, dimage) = network.convs[j - 1], images[j - 1 : j + 1], tangents[j - 1 : j + 1]
        slope = activation.slope(image)
        delta = back * slope
        ddelta = _diagonal(slope) @ dback + _diagonal(back * activation.bend(image)) @ dimage
        taps = conv.patches(before[None])[0].numpy()
        moved = [taps @ channel.toarray() for channel in _split(ddelta, conv.channels)]
        found.insert(0, np.concatenate(moved) + gradient_matrix(conv, delta, shapes[j - 1]) @ dbefore)
        if j > 1:
            back = conv.transpose(delta[None], theta[f"w{j}"], shapes[j - 1])[0]
            dback = matrices[j - 1].T @ ddelta
    return [tangents[-1].toarray(), *found]


def _diagonal(values: Tensor) -> sparse.dia_array:
    return sparse.diags_array(values.flatten().numpy())


def _split(matrix: sparse.sparray, parts: int) -> list[sparse.csr_array]:
    """By rows, into as many of equal height."""
    rows, height = matrix.tocsr(), matrix.shape[0] // parts
    return [rows[k * height : (k + 1) * height] for k in range(parts)]


__all__ = ["chain_jacobian"]
