"""The closed-form objective against double backward, its two forms against each other, and the KKT
identity.
"""

import pytest
import torch
from torch import nn

from recon.attacks.stationarity import Stationarity, stationarity
from recon.errors import ReconError
from recon.nets.gram import gram, layer_norms, output_direction
from recon.nets.mlp import MLP
from recon.nets.module import ModuleNetwork
from recon.released import Weights

NETWORKS = {
    "affine": MLP((7, 1)),
    "one hidden, no bias": MLP((7, 9, 1), bias=(False, False)),
    "three layers": MLP((7, 9, 8, 1), bias=(True, False, False)),
    "all biases": MLP((7, 9, 8, 6, 1)),
    "smooth": MLP((7, 9, 8, 1), smoothing=5.0),
    "five outputs": MLP((7, 9, 8, 5), bias=(True, False, False)),
    "affine, no bias": MLP((7, 1), bias=(False,)),
    "bias in the middle": MLP((7, 9, 8, 1), bias=(False, True, False)),
    "bias at the end": MLP((7, 9, 8, 5), bias=(False, False, True)),
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


def stationarity_by_autograd(network, theta, x, c, *, labels=None):
    """R and its gradient for any network, by autograd twice: slow, general, the oracle of the
    closed forms.

    x (m, ...), c (m,), labels (m,) as in `stationarity` · by_layer (P,): one number for each of the
    P tensors of θ, in order. ReLU' is what the network's own code makes of it: its second
    derivative is zero unless it is smoothed there.
    """
    theta = {name: value.detach().requires_grad_() for name, value in theta.items()}
    x, c = x.detach().requires_grad_(), c.detach().requires_grad_()
    outputs = network(theta, x)
    outputs = outputs.unsqueeze(-1) if outputs.shape == c.shape else outputs
    phi = (outputs * output_direction(outputs.detach(), labels)).sum(-1)
    summed = torch.autograd.grad((c * phi).sum(), tuple(theta.values()), create_graph=True)
    squares = [
        (value.detach() - grad).square().sum()
        for value, grad in zip(theta.values(), summed, strict=True)
    ]
    by_tensor = torch.stack(squares)
    return Stationarity(by_tensor.detach(), *torch.autograd.grad(by_tensor.sum(), (x, c)))


def by_double_backward(network, theta, x, c, weights, labels):
    """R by layer and its gradient, straight from the definition: autograd twice."""
    theta = {name: value.clone().requires_grad_() for name, value in theta.items()}
    x, c = x.clone().requires_grad_(), c.clone().requires_grad_()
    h = x
    for layer in range(1, network.depth + 1):
        h = h @ theta[f"w{layer}"].T + theta.get(f"b{layer}", 0)
        if layer < network.depth:
            h = SmoothedReLU.apply(h) if network.smoothing is None else network.activation(h)
    if labels is None:
        phi = h[:, 0]
    else:
        true = torch.nn.functional.one_hot(labels, h.shape[1]).bool()
        phi = h[true] - h.masked_fill(true, -torch.inf).max(1).values
    grads = dict(
        zip(
            theta,
            torch.autograd.grad((c * phi).sum(), theta.values(), create_graph=True),
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


class SmoothedReLULayer(nn.Module):
    def forward(self, z):
        return SmoothedReLU.apply(z)


def sequential(network):
    """The same network as a module, with the same derivative of its activation."""
    activation = (
        SmoothedReLULayer() if network.smoothing is None else nn.Softplus(beta=network.smoothing)
    )
    parts = []
    for weight, bias in network.names:
        outputs, inputs = network.shapes()[weight]
        parts += [nn.Linear(inputs, outputs, bias is not None), activation]
    return ModuleNetwork(nn.Sequential(*parts[:-1]).double().eval())


def problem(name, m=5):
    network = NETWORKS[name]
    generator = torch.Generator().manual_seed(3)
    theta = network.init(generator, dtype=torch.float64)
    x = torch.randn(m, 7, generator=generator, dtype=torch.float64)
    c = torch.randn(m, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 5, (m,), generator=generator) if network.widths[-1] > 1 else None
    return network, theta, x, c, labels


@pytest.mark.parametrize("form", ["direct", "gram", "auto"])
@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_equals_double_backward(name, form):
    network, theta, x, c, labels = problem(name)
    weights = (1.0, 0.5, 2.0, 0.25)[: network.depth]
    alpha = ALPHA
    found = stationarity(
        Weights(network, network.flatten(theta)),
        x,
        c,
        alpha=alpha,
        layer_weights=weights,
        form=form,
        labels=labels,
    )
    by_layer, grad_x, grad_c = by_double_backward(network, theta, x, c, weights, labels)
    for ours, theirs in (
        (found.by_layer, by_layer),
        (found.grad_x, grad_x),
        (found.grad_c, grad_c),
    ):
        assert (ours - theirs).norm() <= 1e-10 * theirs.norm()


@pytest.mark.parametrize("form", ["direct", "gram"])
@pytest.mark.parametrize("name", NETWORKS)
def test_closed_form_equals_autograd_through_the_module(name, form):
    network, theta, x, c, labels = problem(name)
    module = sequential(network)
    named = dict(zip(module.shapes(), theta.values(), strict=True))
    expected = stationarity_by_autograd(module, named, x, c, labels=labels)
    found = stationarity(
        Weights(network, network.flatten(theta)), x, c, alpha=ALPHA, form=form, labels=labels
    )
    counts = [sum(name is not None for name in pair) for pair in network.names]
    by_layer = torch.stack([part.sum() for part in expected.by_layer.split(counts)])
    for ours, theirs in (
        (found.by_layer, by_layer),
        (found.energy, expected.energy),
        (found.grad_x, expected.grad_x),
        (found.grad_c, expected.grad_c),
    ):
        assert (ours - theirs).norm() <= 1e-10 * theirs.norm()


def test_autograd_takes_an_mlp_as_it_is():
    """With a single logit and with several outputs; its own ReLU' has no second derivative, a
    smooth net's has one.
    """
    for name in ("smooth", "five outputs"):
        network, theta, x, c, labels = problem(name)
        found = stationarity_by_autograd(network, theta, x, c, labels=labels)
        expected = stationarity(
            Weights(network, network.flatten(theta)), x, c, alpha=1e6, labels=labels
        )
        assert torch.allclose(found.energy, expected.energy, rtol=1e-8)
        assert torch.allclose(found.grad_c, expected.grad_c, rtol=1e-8)
        assert not found.energy.requires_grad and not any(
            value.requires_grad for value in theta.values()
        )


@pytest.mark.parametrize("form", ["direct", "gram"])
def test_forms_are_chosen_by_their_cost(form):
    """Few candidates in a wide layer: Gram; more of them: direct.  To the last digit."""
    network = MLP((30, 40, 1))
    generator = torch.Generator().manual_seed(0)
    theta = network.init(generator)
    m = 25 if form == "gram" else 26  # 2m (40 + 30) < 3 · 40 · 30
    x, c = torch.randn(m, 30, generator=generator), torch.randn(m, generator=generator)
    options = {"layer_weights": (1.0, 0.0)}
    chosen, other = (
        stationarity(Weights(network, network.flatten(theta)), x, c, form=kind, **options)
        for kind in ("auto", form)
    )
    assert torch.equal(chosen.grad_x, other.grad_x) and torch.equal(chosen.by_layer, other.by_layer)
    third = stationarity(
        Weights(network, network.flatten(theta)),
        x,
        c,
        form="direct" if form == "gram" else "gram",
        **options,
    )
    assert not torch.equal(chosen.grad_x, third.grad_x)


@pytest.mark.parametrize("form", ["direct", "gram"])
def test_batch_equals_single_runs(form):
    network, theta, x, c, _ = problem("three layers")
    other = (x.flip(0) * 0.7, c.flip(0) * 1.3)
    batch = stationarity(
        Weights(network, network.flatten(theta)),
        torch.stack([x, other[0]]),
        torch.stack([c, other[1]]),
        form=form,
    )
    for row, (one_x, one_c) in enumerate(((x, c), other)):
        single = stationarity(Weights(network, network.flatten(theta)), one_x, one_c, form=form)
        assert torch.allclose(batch.by_layer[row], single.by_layer, rtol=1e-12)
        assert torch.allclose(batch.grad_x[row], single.grad_x, rtol=1e-12, atol=1e-14)
        assert torch.allclose(batch.grad_c[row], single.grad_c, rtol=1e-12, atol=1e-14)


def test_gram_matrices_give_the_objective():
    network, theta, x, c, _ = problem("all biases")
    matrices, products = gram(network, theta, x, alpha=ALPHA)
    expected = stationarity(Weights(network, network.flatten(theta)), x, c, alpha=ALPHA).by_layer
    found = (
        layer_norms(network, theta) - 2 * products @ c + torch.einsum("i,lij,j->l", c, matrices, c)
    )
    assert torch.allclose(found, expected, rtol=1e-12)


def test_a_skipped_layer_does_not_count():
    network, theta, x, c, _ = problem("three layers")
    first = stationarity(
        Weights(network, network.flatten(theta)), x, c, layer_weights=(1.0, 0.0, 0.0)
    )
    every = stationarity(Weights(network, network.flatten(theta)), x, c)
    assert first.by_layer[0] == every.by_layer[0] and first.by_layer[1:].abs().max() == 0
    assert not torch.allclose(first.grad_x, every.grad_x)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"form": "fast"}, "unknown form"),
        ({"layer_weights": (1.0,)}, "layer_weights"),
        ({"c": torch.ones(3, dtype=torch.float64)}, "do not fit"),
        ({"x": torch.ones(5, 6, dtype=torch.float64)}, "do not fit"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    network, theta, x, c, _ = problem("three layers")
    arguments = {"x": x, "c": c, **change}
    with pytest.raises(ReconError, match=sentence):
        stationarity(Weights(network, network.flatten(theta)), **arguments)


def test_several_outputs_need_labels():
    network, theta, x, c, _ = problem("five outputs")
    with pytest.raises(ReconError, match="labels"):
        stationarity(Weights(network, network.flatten(theta)), x, c)
