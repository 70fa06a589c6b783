"""The closed-form objective against double backward, its two forms against each other, and the KKT
identity.
"""

import pytest
import torch

from recon.attacks import stationarity as module
from recon.attacks.stationarity import stationarity
from recon.errors import ReconError
from recon.nets.gram import gram, layer_norms
from recon.nets.mlp import MLP
from recon.released import Weights

NETWORKS = {
    "affine": MLP((7, 1)),
    "one hidden, no bias": MLP((7, 9, 1), bias=(False, False)),
    "three layers": MLP((7, 9, 8, 1), bias=(True, False, False)),
    "all biases": MLP((7, 9, 8, 6, 1)),
    "smooth": MLP((7, 9, 8, 1), smoothing=5.0),
    "affine, no bias": MLP((7, 1), bias=(False,)),
    "bias in the middle": MLP((7, 9, 8, 1), bias=(False, True, False)),
    "bias at the end": MLP((7, 9, 8, 1), bias=(False, False, True)),
}
ALPHA = 8.0


class SmoothedReLU(torch.autograd.Function):
    """ReLU forward, sigmoid(α z) as its derivative, differentiable again: the reference recipe's
    activation.
    """

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.relu()

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad * torch.sigmoid(ALPHA * z)


def by_double_backward(network, theta, x, c, weights):
    """R by layer and its gradient, straight from the definition: autograd twice."""
    theta = {name: value.clone().requires_grad_() for name, value in theta.items()}
    x, c = x.clone().requires_grad_(), c.clone().requires_grad_()
    h = x
    for layer in range(1, network.depth + 1):
        h = h @ theta[f"w{layer}"].T + theta.get(f"b{layer}", 0)
        if layer < network.depth:
            h = SmoothedReLU.apply(h) if network.smoothing is None else network.activation(h)
    grads = dict(
        zip(
            theta,
            torch.autograd.grad((c * h[:, 0]).sum(), theta.values(), create_graph=True),
            strict=True,
        )
    )
    by_layer = torch.stack(
        [
            weights[layer - 1]
            * sum((theta[n] - grads[n]).square().sum() for n in theta if n[1:] == str(layer))
            for layer in range(1, network.depth + 1)
        ]
    )
    # θ's own dependence is not wanted: gradients in x and c only
    return by_layer.detach(), *torch.autograd.grad(by_layer.sum(), (x, c))


def problem(name, m=5):
    network = NETWORKS[name]
    generator = torch.Generator().manual_seed(3)
    weights = Weights(network, network.flatten(network.init(generator, dtype=torch.float64)))
    x = torch.randn(m, 7, generator=generator, dtype=torch.float64)
    c = torch.randn(m, generator=generator, dtype=torch.float64)
    return weights, x, c


@pytest.mark.parametrize("m", [1, 5, 30])
@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_equals_double_backward(name, m):
    """By the Gram form alone (m = 1), the direct one alone (m = 30), or by both."""
    weights, x, c = problem(name, m)
    omega = (1.0, 0.5, 2.0, 0.25)[: weights.network.depth]
    ours = stationarity(weights, x, c, alpha=ALPHA, layer_weights=omega)
    theirs = by_double_backward(weights.network, weights.params, x, c, omega)
    for value, expected in zip((ours.by_layer, ours.grad_x, ours.grad_c), theirs, strict=True):
        assert (value - expected).norm() <= 1e-10 * expected.norm()


@pytest.mark.parametrize(("m", "form"), [(25, "_gram_term"), (26, "_direct_term")])
def test_forms_are_chosen_by_their_cost(m, form, monkeypatch):
    """Few candidates in a wide layer: Gram; more of them: direct."""
    network = MLP((30, 40, 1))
    weights = Weights(network, network.flatten(network.init(torch.Generator().manual_seed(0))))
    calls = []
    for name in ("_gram_term", "_direct_term"):
        term = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, n=name, f=term: calls.append(n) or f(*a))
    stationarity(weights, torch.ones(m, 30), torch.ones(m), layer_weights=(1.0, 0.0))
    assert calls == [form]


@pytest.mark.parametrize("m", [1, 30])
def test_batch_equals_single_runs(m):
    weights, x, c = problem("three layers", m)
    x, c = torch.stack([x, 0.7 * x.flip(0)]), torch.stack([c, 1.3 * c.flip(0)])
    batch = stationarity(weights, x, c)
    for row in range(2):
        single = stationarity(weights, x[row], c[row])
        torch.testing.assert_close(batch.by_layer[row], single.by_layer, rtol=1e-12, atol=0)
        torch.testing.assert_close(batch.grad_x[row], single.grad_x, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(batch.grad_c[row], single.grad_c, rtol=1e-12, atol=1e-14)


def test_a_skipped_layer_does_not_count():
    weights, x, c = problem("three layers")
    first = stationarity(weights, x, c, layer_weights=(1.0, 0.0, 0.0))
    every = stationarity(weights, x, c)
    assert first.by_layer[0] == every.by_layer[0] and first.by_layer[1:].abs().max() == 0
    nearly = stationarity(weights, x, c, layer_weights=(1.0, 1e-12, 1e-12))
    torch.testing.assert_close(first.grad_x, nearly.grad_x)


def test_gram_matrices_give_the_objective():
    weights, x, c = problem("all biases")
    matrices, products = gram(weights.network, weights.params, x, alpha=ALPHA)
    norms = layer_norms(weights.network, weights.params)
    expected = norms - 2 * products @ c + torch.einsum("i,lij,j->l", c, matrices, c)
    ours = stationarity(weights, x, c, alpha=ALPHA).by_layer
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("outputs", "change", "sentence"),
    [
        (1, {"layer_weights": (1.0,)}, "layer_weights"),
        (1, {"c": torch.ones(3)}, "do not fit"),
        (5, {}, "one logit"),
    ],
)
def test_bad_input_is_one_sentence(outputs, change, sentence):
    network = MLP((7, 9, outputs))
    weights = Weights(network, torch.zeros(network.n_params))
    with pytest.raises(ReconError, match=sentence):
        stationarity(weights, torch.ones(5, 7), **{"c": torch.ones(5), **change})
