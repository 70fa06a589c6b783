"""A layer's linear system against autograd and dense algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_networks import CONVS, SHAPE, STRIDED, some_images, theta_of

from recon.attacks.rgap import (
    Stacked,
    convolution_matrix,
    generic_rank,
    gradient_matrix,
    systems,
)
from recon.nets.conv import Conv


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_operators_are_the_convolution_and_its_weight_gradient(conv):
    """For any kernel, stride, padding, also where (h + 2p − k) is no multiple of the stride."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, *SHAPE, generator=generator, dtype=torch.float64)
    weight = torch.randn(
        conv.channels, SHAPE[0], conv.kernel, conv.kernel, generator=generator, dtype=torch.float64
    )
    z = conv.apply(x, weight.requires_grad_())
    delta = torch.randn(z.shape, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((z * delta).sum(), weight)
    weight = weight.detach()
    w, k = convolution_matrix(conv, weight, SHAPE), gradient_matrix(conv, delta[0], SHAPE)
    flat = x.flatten().numpy()
    np.testing.assert_allclose(w @ flat, z.detach().flatten().numpy(), atol=1e-12)
    np.testing.assert_allclose(k @ flat, gradient.flatten().numpy(), atol=1e-12)
    system = Stacked(w, k)
    dense = system.dense()
    assert system.shape == dense.shape == (z.numel() + weight.numel(), math.prod(SHAPE))
    np.testing.assert_allclose(dense, np.vstack([w.toarray(), k.toarray()]))
    gram = dense.T @ dense if dense.shape[1] <= dense.shape[0] else dense @ dense.T
    np.testing.assert_allclose(system.gram(), gram, atol=1e-10)
    np.testing.assert_allclose(system.apply(flat), dense @ flat, atol=1e-10)
    np.testing.assert_allclose(system.adjoint(dense @ flat), dense.T @ dense @ flat, atol=1e-9)


def test_the_truth_solves_the_system_of_every_layer():
    """U_i x_{i−1} = [z_i; ∇_{W_i} ℓ], eq. (7)."""
    theta, x, labels = theta_of(STRIDED), some_images(STRIDED, 1), torch.tensor([1])
    gradients, found = STRIDED.gradients(theta, x, labels), systems(STRIDED, theta, x, labels)
    assert len(found) == STRIDED.depth
    for i, (conv, system) in enumerate(zip(STRIDED.convs, found, strict=True), start=1):
        z = conv.apply(x, theta[f"w{i}"])
        right = torch.cat([z.flatten(), gradients[f"w{i}"].flatten()])
        np.testing.assert_allclose(system.apply(x.flatten().numpy()), right.numpy(), atol=1e-12)
        x = STRIDED.activation(z)


def test_dependencies_that_the_generic_rank_counts():
    """Σ_p δ[o, p] W[(o', p), ·] = Σ_t w[o', t] K[(o, t), ·] for all c_out² pairs."""
    conv, generator = CONVS[0], torch.Generator().manual_seed(0)
    weight = torch.randn(conv.channels, SHAPE[0], 3, 3, generator=generator, dtype=torch.float64)
    delta = torch.randn(conv.output(SHAPE), generator=generator, dtype=torch.float64)
    w = (
        convolution_matrix(conv, weight, SHAPE)
        .toarray()
        .reshape(conv.channels, -1, math.prod(SHAPE))
    )
    k = gradient_matrix(conv, delta, SHAPE).toarray().reshape(conv.channels, -1, math.prod(SHAPE))
    left = np.einsum("op,qpx->oqx", delta.flatten(1).numpy(), w)
    right = np.einsum("qt,otx->oqx", weight.flatten(1).numpy(), k)
    np.testing.assert_allclose(left, right, atol=1e-10)


def test_full_rank_is_that_of_the_matrix_itself():
    import scipy.sparse as sparse

    generator = np.random.default_rng(0)
    whole = Stacked(
        sparse.csr_array(generator.normal(size=(6, 5))),
        sparse.csr_array(generator.normal(size=(2, 5))),
    )
    assert whole.full_rank()
    unread = whole.dense()
    unread[:, 3] = 0
    assert not Stacked(sparse.csr_array(unread[:6]), sparse.csr_array(unread[6:])).full_rank()
    twice = whole.dense()
    twice[:, 3] = twice[:, 1]
    assert not Stacked(sparse.csr_array(twice[:6]), sparse.csr_array(twice[6:])).full_rank()
    assert not Stacked(sparse.csr_array(unread[:3]), sparse.csr_array(unread[3:4])).full_rank()


def test_the_generic_rank_is_what_equations_and_weights_less_their_dependencies_allow():
    """Table 1's CNN2 V2: 6 · 15² outputs and 6 · 3 · 4² weights less 6² dependencies, for 3072
    pixels.
    """
    assert (
        generic_rank(Conv(kernel=4, channels=6, stride=2), (3, 32, 32))
        == 6 * 15**2 + 6 * 3 * 4**2 - 6**2
    )
    assert generic_rank(Conv(kernel=4, channels=12, stride=2), (3, 32, 32)) == 3072
