"""Layers' passes, per-image gradients and Gram matrices of every MLP against autograd through
nn.Sequential.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from small_networks import layer_passes
from torch import nn
from torch.func import functional_call, grad, vmap

from recon.errors import ReconError
from recon.nets.gram import gram, layer_norms, output_direction, per_image_gradients
from recon.nets.mlp import MLP
from recon.nets.network import LayerPass

F64, N, ALPHA = torch.float64, 5, 8.0
NETWORKS = [
    MLP((7, *hidden, k), bias=bias)
    for hidden in ((), (9,))
    for k in (1, 4)
    for bias in product((True, False), repeat=len(hidden) + 1)
] + [MLP((7, 9, 8, 6, 1)), MLP((7, 9, 8, 6, 5, 3), bias=(False, True, False, True, False))]
SMOOTH = [MLP((7, 9, 8, 1), smoothing=5.0), MLP((7, 9, 4), bias=(False, True), smoothing=2.0)]


class SmoothedReLU(nn.Module):
    """ReLU forward; sigmoid(α z) is its derivative."""

    def forward(self, z):
        smooth = nn.functional.softplus(ALPHA * z) / ALPHA
        return z.relu().detach() + (smooth - smooth.detach())


def sequential(network, activation):
    """The same network as a module, and its names in the order of the MLP's."""
    parts = []
    for weight, bias in network.names:
        outputs, inputs = network.shapes()[weight]
        parts += [nn.Linear(inputs, outputs, bias is not None), activation]
    return nn.Sequential(*parts[:-1]).double()


def problem(network):
    generator = torch.Generator().manual_seed(3)
    theta = network.init(generator, dtype=F64)
    x = torch.randn(N, network.dim, generator=generator, dtype=F64)
    k = network.widths[-1]
    labels = torch.randint(0, k, (N,), generator=generator) if k > 1 else None
    return theta, x, labels


@pytest.mark.parametrize(
    ("network", "alpha"),
    [(network, alpha) for network in NETWORKS for alpha in (None, ALPHA)]
    + [(network, None) for network in SMOOTH],
    ids=str,
)
def test_gradients_and_gram_matrices_equal_autograd_of_the_module(network, alpha):
    theta, x, labels = problem(network)
    exact = nn.ReLU() if network.smoothing is None else nn.Softplus(beta=network.smoothing)
    module = sequential(network, exact if alpha is None else SmoothedReLU())
    names = [name for name, _ in module.named_parameters()]
    theirs = dict(zip(names, theta.values(), strict=True))

    def phi(theta, image, along):
        return (functional_call(module, theta, (image[None],))[0] * along).sum()

    along = output_direction(functional_call(module, theirs, (x,)).detach(), labels)
    expected = vmap(grad(phi), in_dims=(None, 0, 0))(theirs, x, along).values()
    passes = layer_passes(
        network, theta, x, lambda outputs: output_direction(outputs, labels), alpha
    )
    gradients = per_image_gradients(passes)
    assert list(gradients) == list(theta)
    torch.testing.assert_close(list(gradients.values()), list(expected), rtol=1e-9, atol=1e-12)

    matrices, products = gram(network, theta, x, alpha=alpha, labels=labels)
    for layer, pair in enumerate(network.names):
        rows = torch.cat([gradients[name].flatten(1) for name in pair if name], dim=1)
        weights = torch.cat([theta[name].flatten() for name in pair if name])
        torch.testing.assert_close(matrices[layer], rows @ rows.T)
        torch.testing.assert_close(products[layer], rows @ weights)
        torch.testing.assert_close(layer_norms(network, theta)[layer], weights.square().sum())


def test_leading_dimensions_are_problems_of_their_own():
    """In θ and in x alike, (2, …); and in x alone."""
    network = MLP((7, 9, 8, 1), bias=(True, False, False))
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(2, network.n_params, generator=generator, dtype=F64)
    x = torch.randn(2, N, 7, generator=generator, dtype=F64)
    assert torch.equal(network.flatten(network.unflatten(vectors)), vectors)
    for theta, single in ((vectors, vectors), (vectors[1], vectors[[1, 1]])):
        theta = network.unflatten(theta)
        gradients = per_image_gradients(layer_passes(network, theta, x))
        matrices, products = gram(network, theta, x)
        for k in range(2):
            alone = network.unflatten(single[k])
            passes = layer_passes(network, alone, x[k])
            for name, value in per_image_gradients(passes).items():
                torch.testing.assert_close(gradients[name][k], value)
            expected = gram(network, alone, x[k])
            torch.testing.assert_close((matrices[:, k], products[:, k]), expected)


def test_a_layer_that_shares_its_weights_between_positions():
    """Gradients are sums over positions, by a loop over them."""
    generator = torch.Generator().manual_seed(2)
    patches = torch.randn(N, 12, 6, generator=generator, dtype=F64)
    delta = torch.randn(N, 4, 6, generator=generator, dtype=F64)
    gradients = per_image_gradients([LayerPass("w", "b", patches, delta, shared=True)])
    expected = sum(delta[:, :, p, None] * patches[:, None, :, p] for p in range(6))
    torch.testing.assert_close(gradients["w"], expected)
    torch.testing.assert_close(gradients["b"], sum(delta[:, :, p] for p in range(6)))


def test_direction_of_one_logit_and_of_the_margin():
    assert torch.equal(output_direction(torch.tensor([[2.0], [-3.0]]), None), torch.ones(2, 1))
    outputs = torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [-1.0, -2.0, -3.0]])
    expected = [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    assert output_direction(outputs, torch.tensor([0, 1, 2])).tolist() == expected
    with pytest.raises(ReconError, match="3 outputs needs labels"):
        output_direction(outputs, None)
