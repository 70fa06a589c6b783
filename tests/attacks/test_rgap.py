"""R-GAP against dense least squares: exact where the rank is full, minimum norm where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from small_networks import LOSSY, SMALL, STRIDED, some_gradient

from recon.analysis.identifiability import numerical_rank
from recon.attacks.operators import System, systems
from recon.attacks.rgap import layer_by_layer, minimum_norm, rgap
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
    system = System(sparse.csr_array(u[: rows // 2]), sparse.csr_array(u[rows // 2 :]))
    expected = np.linalg.lstsq(u, v, rcond=1e-10)[0]
    # a tall U that loses rank: rounding of Uᵀ(v − U x), divided by μ, stays in the kernel
    np.testing.assert_allclose(minimum_norm(system, v), expected, atol=1e-3 if deficient and rows == 20 else 1e-6)


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
def test_rgap_is_exact_where_the_rank_is_full_and_minimum_norm_where_not(activation):
    gradient, x = some_gradient(SMALL.with_activation(activation))
    for victim, image in zip(gradient.split(), x, strict=True):
        assert (rgap(victim) - image).square().mean().item() < 1e-12
    gradient, x = some_gradient(LOSSY.with_activation(activation))
    found = rgap(gradient.split()[0])
    (system,) = systems(gradient.network, gradient.theta, x[:1], gradient.labels[:1])
    assert numerical_rank(system).deficiency < 0
    assert 1e-4 < (found - x[:1]).square().mean().item() < x[0].square().mean()
    expected = np.linalg.pinv(system.dense()) @ system.apply(x[0].flatten().numpy())
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=1e-6)


def test_each_layer_goes_on_from_the_one_before_or_from_what_is_sent():
    """With the true x_{i−1} sent in, every layer's z and δ are the true ones, whatever the solver lost."""
    gradient, x = some_gradient(STRIDED, 1)
    theta, inputs = gradient.theta, [x]
    for i, conv in enumerate(STRIDED.convs, start=1):
        inputs.append(STRIDED.activation(conv.apply(inputs[-1], theta[f"w{i}"])))
    passes = STRIDED.layers(theta, x, lambda logits: gradient.gradients["b3"])
    chain = layer_by_layer(gradient)
    found = next(chain)
    for layer in (2, 1):
        conv = STRIDED.convs[layer - 1]
        assert found.layer == layer and found.x.shape == inputs[layer - 1].shape
        torch.testing.assert_close(found.z, conv.apply(inputs[layer - 1], theta[f"w{layer}"]), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(found.delta.flatten(2), passes[layer - 1].delta, rtol=1e-6, atol=1e-9)
        assert (found.x - inputs[layer - 1]).abs().max() > 1e-3  # both layers lose rank: the solver's are others
        if layer > 1:
            found = chain.send(inputs[layer - 1].float())  # Hybrid works in float32
            assert found.x.dtype == torch.float64


def test_single_precision_goes_in_and_double_comes_out():
    gradient, x = some_gradient(SMALL, 1)
    found = rgap(gradient.to(torch.float32))
    assert found.dtype == torch.float64 and found.shape == x.shape
    assert (found - x).square().mean() < 1e-6


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rgap(some_gradient(SMALL.with_activation("relu"), 1)[0]), "not invertible"),
        (lambda: rgap(some_gradient()[0]), "one image at a time"),
        (lambda: rgap(some_gradient(ConvNet((), shape=(1, 3, 3), classes=4), 1)[0]), "no convolution"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(ReconError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
