"""Layers' passes, per-image gradients and Gram matrices of every MLP against autograd through
nn.Sequential.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from recon.errors import ReconError
from recon.nets.gram import (
    gram,
    gram_matrix,
    layer_norms,
    output_direction,
    per_image_gradients,
    products_with_theta,
)
from recon.nets.mlp import MLP
from recon.nets.module import ModuleNetwork
from recon.nets.network import LayerPass

F64, N, ALPHA = torch.float64, 5, 8.0
NETWORKS = [
    MLP((7, *hidden, k), bias=bias)
    for hidden in ((), (9,), (9, 8))
    for k in (1, 4)
    for bias in product((True, False), repeat=len(hidden) + 1)
] + [MLP((7, 9, 8, 6, 1)), MLP((7, 9, 8, 6, 5, 3), bias=(False, True, False, True, False))]
SMOOTH = [MLP((7, 9, 8, 1), smoothing=5.0), MLP((7, 9, 4), bias=(False, True), smoothing=2.0)]


class SmoothedReLU(nn.Module):
    """ReLU forward; sigmoid(α z) is its derivative, differentiable again."""

    def forward(self, z):
        smooth = nn.functional.softplus(ALPHA * z) / ALPHA
        return z.relu().detach() + (smooth - smooth.detach())


def sequential(network, activation=None):
    """The same network as a module, and its names in the order of the MLP's."""
    if activation is None:
        activation = nn.ReLU() if network.smoothing is None else nn.Softplus(beta=network.smoothing)
    parts = []
    for weight, bias in network.names:
        outputs, inputs = network.shapes()[weight]
        parts += [nn.Linear(inputs, outputs, bias is not None), activation]
    module = ModuleNetwork(nn.Sequential(*parts[:-1]).double().eval())
    return module, list(module.shapes())


def per_image(network, theta, x, direction):
    """∇_θ Φ(x_i) by name, (n, *shape), by torch.func through the module itself."""

    def phi(theta, image, along):
        return (functional_call(network.module, theta, (image[None],))[0] * along).sum()

    along = direction(functional_call(network.module, theta, (x,)))
    return vmap(grad(phi), in_dims=(None, 0, 0))(theta, x, along)


def problem(network, seed=3):
    generator = torch.Generator().manual_seed(seed)
    theta = network.init(generator, dtype=F64)
    x = torch.randn(N, network.dim, generator=generator, dtype=F64)
    k = network.widths[-1]
    labels = torch.randint(0, k, (N,), generator=generator) if k > 1 else None
    return theta, x, partial(output_direction, labels=labels), labels


def close(ours, theirs):
    return ours.shape == theirs.shape and (ours - theirs).norm() <= 1e-10 * theirs.norm().clamp_min(
        1e-3
    )


@pytest.mark.parametrize("network", NETWORKS + SMOOTH, ids=str)
def test_gradients_equal_autograd_of_the_module(network):
    theta, x, direction, labels = problem(network)
    module, names = sequential(network)
    named = dict(zip(names, theta.values(), strict=True))
    assert [tuple(s) for s in module.shapes().values()] == list(network.shapes().values())
    assert close(network(theta, x), module(named, x))
    expected = per_image(module, named, x, direction)
    found = per_image_gradients(network.layers(theta, x, direction))
    assert list(found) == list(theta) and list(expected) == names
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        assert close(ours, theirs)

    flat = {
        name: gradient.flatten(1) for name, gradient in zip(theta, expected.values(), strict=True)
    }
    matrices, products = gram(network, theta, x, labels=labels)
    for layer, pair in enumerate(network.names):
        of_layer = torch.cat([flat[name] for name in pair if name], dim=1)
        own = torch.cat([theta[name].flatten() for name in pair if name])
        assert close(matrices[layer], of_layer @ of_layer.T) and close(
            products[layer], of_layer @ own
        )
        assert close(layer_norms(network, theta)[layer], own.square().sum())


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_a_smoothed_derivative_is_that_of_a_module_with_it(network):
    theta, x, direction, labels = problem(network)
    module, names = sequential(network, SmoothedReLU())
    named = dict(zip(names, theta.values(), strict=True))
    expected = per_image(module, named, x, direction)
    found = per_image_gradients(network.layers(theta, x, direction, alpha=ALPHA))
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        assert close(ours, theirs)
    matrices, _ = gram(network, theta, x, alpha=ALPHA, labels=labels)
    first = torch.cat([found[name].flatten(1) for name in network.names[0] if name], dim=1)
    assert close(matrices[0], first @ first.T)


def test_alpha_does_not_count_for_a_net_that_is_smooth_itself():
    theta, x, direction, _ = problem(SMOOTH[0])
    for ours, theirs in zip(
        SMOOTH[0].layers(theta, x, direction),
        SMOOTH[0].layers(theta, x, direction, alpha=3.0),
        strict=True,
    ):
        assert torch.equal(ours.delta, theirs.delta)


@pytest.mark.parametrize("bias", [None, (True, False, False)])
def test_leading_dimensions_are_problems_of_their_own(bias):
    """In θ and in x alike, (2, 3, …); and in x alone."""
    network = MLP((7, 9, 8, 1), bias=bias)
    generator = torch.Generator().manual_seed(1)
    thetas = [[network.init(generator, dtype=F64) for _ in range(3)] for _ in range(2)]
    stacked = {
        name: torch.stack([torch.stack([theta[name] for theta in row]) for row in thetas])
        for name in thetas[0][0]
    }
    x = torch.randn(2, 3, N, 7, generator=generator, dtype=F64)
    for theta, of in (
        (stacked, lambda i, j: thetas[i][j]),
        (thetas[1][2], lambda i, j: thetas[1][2]),
    ):
        passes = network.layers(theta, x, torch.ones_like)
        gradients, matrices = per_image_gradients(passes), [gram_matrix(layer) for layer in passes]
        products = [products_with_theta(theta, layer) for layer in passes]
        for i, j in product(range(2), range(3)):
            single = network.layers(of(i, j), x[i, j], torch.ones_like)
            for name, value in per_image_gradients(single).items():
                assert close(gradients[name][i, j], value)
            for layer, one in enumerate(single):
                assert close(matrices[layer][i, j], gram_matrix(one))
                assert close(products[layer][i, j], products_with_theta(of(i, j), one))


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_that_shares_its_weights_between_positions(bias):
    """Gradients are sums over positions, by a loop over them."""
    generator = torch.Generator().manual_seed(2)
    patches = torch.randn(N, 12, 6, generator=generator, dtype=F64)
    delta = torch.randn(N, 4, 6, generator=generator, dtype=F64)
    theta = {"w": torch.randn(4, 3, 2, 2, generator=generator, dtype=F64)}
    theta |= {"b": torch.randn(4, generator=generator, dtype=F64)} if bias else {}
    layer = LayerPass("w", "b" if bias else None, patches, delta, shared=True)
    expected = sum(delta[:, :, p, None] * patches[:, None, :, p] for p in range(6))
    found = per_image_gradients([layer])
    assert set(found) == set(theta) and close(found["w"], expected)
    if bias:
        assert close(found["b"], sum(delta[:, :, p] for p in range(6)))


def test_direction_of_one_logit_and_of_the_margin():
    assert torch.equal(output_direction(torch.tensor([[2.0], [-3.0]]), None), torch.ones(2, 1))
    outputs = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [-1.0, -2.0, -3.0]])
    expected = [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    assert output_direction(outputs, torch.tensor([0, 1, 2])).tolist() == expected
    with pytest.raises(ReconError, match="3 outputs needs labels"):
        output_direction(outputs, None)
