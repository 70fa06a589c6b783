"""R-GAP against dense least squares: exact where the rank is full, minimum norm where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from small_networks import LOSSY, SMALL, STRIDED, some_gradient, with_activation

from recon.analysis.identifiability import rank_deficiency
from recon.attacks.rgap import Stacked, layer_by_layer, minimum_norm, rgap, systems
from recon.errors import ReconError
from recon.nets.conv import ConvNet


@pytest.mark.parametrize("rows", [40, 20, 12])
@pytest.mark.parametrize("deficient", [False, True])
def test_minimum_norm_is_lstsqs(rows, deficient):
    rng = np.random.default_rng(0)
    u = rng.standard_normal((rows, 20))
    if deficient:
        u[rows // 2 :] = u[: rows - rows // 2]
    v = rng.standard_normal(rows)
    system = Stacked(sparse.csr_array(u[: rows // 2]), sparse.csr_array(u[rows // 2 :]))
    expected = np.linalg.lstsq(u, v, rcond=1e-10)[0]
    # a tall U that loses rank: rounding of Uᵀ(v − U x), divided by μ, stays in the kernel
    np.testing.assert_allclose(
        minimum_norm(system, v), expected, atol=1e-3 if deficient and rows == 20 else 1e-6
    )


@pytest.mark.parametrize("rows", [30, 12])
def test_refinement_takes_the_ridges_effect_away(rows):
    """Condition 1e5: the first step alone, of a mean eigenvalue's 1e-12, would be off by a
    thousandth.
    """
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((size, 12)))[0] for size in (rows, 20))
    u = left * np.geomspace(1, 1e-5, 12) @ right.T
    u = u if rows == 12 else u @ right  # tall, or wide
    x = u.T @ rng.standard_normal(rows)
    # in the row space
    x = right @ rng.standard_normal(12) if rows == 12 else rng.standard_normal(12)
    system = Stacked(sparse.csr_array(u[: rows // 2]), sparse.csr_array(u[rows // 2 :]))
    np.testing.assert_allclose(minimum_norm(system, u @ x), x, atol=1e-8)


def test_what_the_system_cannot_reach_does_not_drown_the_solution():
    """A wide system that loses rank, and a right-hand side far out of its range."""
    rng = np.random.default_rng(0)
    half, away = rng.standard_normal((6, 20)), 1e6 * rng.standard_normal(6)
    x = half.T @ rng.standard_normal(6)
    system = Stacked(sparse.csr_array(half), sparse.csr_array(half))
    v = np.concatenate([half @ x + away, half @ x - away])
    np.testing.assert_allclose(minimum_norm(system, v), x, atol=1e-6 * np.abs(x).max())


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
def test_rgap_is_exact_where_the_rank_is_full_and_minimum_norm_where_not(activation):
    gradient, x = some_gradient(with_activation(SMALL, activation))
    for victim, image in zip(gradient.split(), x, strict=True):
        assert (rgap(victim) - image).square().mean().item() < 1e-12
    gradient, x = some_gradient(with_activation(LOSSY, activation))
    found = rgap(gradient.split()[0])
    (system,) = systems(gradient.network, gradient.theta, x[:1], gradient.labels[:1])
    assert rank_deficiency(system) < 0
    assert 1e-4 < (found - x[:1]).square().mean().item() < x[0].square().mean()
    expected = np.linalg.pinv(system.dense()) @ system.apply(x[0].flatten().numpy())
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=1e-6)


def test_each_layer_goes_on_from_the_one_before_or_from_what_is_sent():
    """z = σ⁻¹(x) and δ = σ'(z) · Wᵀδ of what was found, or of what Hybrid made of it."""
    gradient, x = some_gradient(STRIDED, 1)
    passes = STRIDED.layers(gradient.theta, x, lambda logits: gradient.gradients["b3"])
    hidden = STRIDED.activation(STRIDED.convs[0].apply(x, gradient.theta["w1"]))
    sent = 0.9 * hidden
    back = STRIDED.convs[1].transpose(
        passes[1].delta.view(1, 5, 2, 2), gradient.theta["w2"], hidden.shape[1:]
    )
    for better, expected in ((None, hidden), (sent.float(), sent)):  # Hybrid works in float32
        chain = layer_by_layer(gradient)
        found = next(chain)
        assert found.layer == 2
        torch.testing.assert_close(found.delta.flatten(2), passes[1].delta, rtol=1e-6, atol=1e-9)
        # full rank: the solver's is the truth
        torch.testing.assert_close(found.x, hidden, rtol=1e-6, atol=1e-9)
        found = chain.send(better)
        assert found.layer == 1 and found.x.dtype == torch.float64 and found.x.shape == x.shape
        torch.testing.assert_close(found.z, expected.atanh(), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(
            found.delta, back * (1 - expected.square()), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize(
    ("gradient", "sentence"),
    [
        (some_gradient(with_activation(SMALL, "relu"), 1)[0], "not invertible"),
        (some_gradient()[0], "one image at a time"),
        (some_gradient(ConvNet((), shape=(1, 3, 3), classes=4), 1)[0], "no convolution"),
    ],
)
def test_bad_input_is_one_sentence(gradient, sentence):
    with pytest.raises(ReconError, match=sentence):
        rgap(gradient)
