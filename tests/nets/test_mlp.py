"""The fully connected network's names, its initial weights and its derivative."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from recon.errors import ReconError
from recon.nets.mlp import MLP, affine, one_hidden, three_layer

F64 = torch.float64
NETS = [
    affine(5),
    one_hidden(4, 5),
    one_hidden(4, 5, smoothing=3.0),
    three_layer(4, 5),
    three_layer(4, 5, outputs=3),
    MLP((5, 4, 3, 2), bias=(False, True, False)),
    MLP((5, 3, 4, 1), bias=(False, False, True), smoothing=0.7),
    MLP((5, 3, 3, 2, 1)),
]


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


class Sequential(nn.Sequential):
    """The same network as PyTorch writes it, weights included; `zs` are the outputs of its linear
    layers.
    """

    def __init__(self, network, theta):
        sigma = nn.ReLU() if network.smoothing is None else nn.Softplus(network.smoothing)
        parts = []
        for weight, bias in network.names:
            linear = nn.Linear(*theta[weight].shape[::-1], bias=bias is not None, dtype=F64)
            linear.weight.data.copy_(theta[weight])
            if bias is not None:
                linear.bias.data.copy_(theta[bias])
            parts += [linear, sigma]
        super().__init__(*parts[:-1])
        self.zs, self.inputs = [], []

    def forward(self, x):
        self.zs, self.inputs = [], []
        for part in self:
            if isinstance(part, nn.Linear):
                self.inputs.append(x)
            x = part(x)
            if isinstance(part, nn.Linear):
                self.zs.append(x)
        return x


def drawn(network, seed=1):
    """θ with every parameter of order one, biases too."""
    return {
        name: normal(*shape, seed=seed + k)
        for k, (name, shape) in enumerate(network.shapes().items())
    }


def test_names_and_shapes_leave_missing_biases_out():
    network = MLP((4, 3, 2), bias=(False, True))
    assert network.names == [("w1", None), ("w2", "b2")]
    assert list(network.shapes().items()) == [("w1", (3, 4)), ("w2", (2, 3)), ("b2", (2,))]
    assert network.n_params == 12 + 6 + 2


@pytest.mark.parametrize("network", [MLP((50, 40, 30, 1)), three_layer(40, 50)], ids=str)
def test_initial_weights_have_their_scheme_s_scale(network):
    fan_in = {
        name: width
        for pair, width in zip(network.names, network.widths[:-1], strict=True)
        for name in pair
    }
    draws = {
        scheme: network.init(torch.Generator().manual_seed(0), scheme)
        for scheme in ("default", "uniform", "small")
    }
    for name, value in draws["default"].items():
        if value.numel() < 10:
            continue
        bound = fan_in[name] ** -0.5
        assert 0.8 * bound < value.abs().max() <= bound and value.min() < 0
        assert draws["uniform"][name].min() >= 0 and 0.8 < draws["uniform"][name].max() <= 1
        small = draws["small"][name]
        if name in ("w1", "b1"):
            assert small.std().item() == pytest.approx(1e-4, rel=0.3)
        else:
            assert 0.8 * bound < small.abs().max() <= bound
    with pytest.raises(ReconError, match="unknown weight initialisation"):
        network.init(torch.Generator(), "large")


def test_slope_of_every_kind():
    z = torch.tensor([-1.0, 0.0, 2.0], dtype=F64)
    assert MLP((1, 1)).slope(z).tolist() == [0.0, 0.0, 1.0]
    assert torch.allclose(MLP((1, 1)).slope(z, 3.0), 1 / (1 + torch.exp(-3 * z)))
    assert torch.allclose(MLP((1, 1), smoothing=2.0).slope(z, 3.0), 1 / (1 + torch.exp(-2 * z)))


@pytest.mark.parametrize("network", NETS, ids=str)
def test_outputs_are_those_of_a_sequential(network):
    theta, x = drawn(network), normal(6, 5)
    expected = Sequential(network, theta)(x)
    found = network(theta, x)
    assert found.shape == ((6,) if network.widths[-1] == 1 else (6, network.widths[-1]))
    torch.testing.assert_close(found, expected.view(found.shape), rtol=1e-12, atol=1e-12)
    assert network(theta, x[:1]).shape == found[:1].shape  # one image is still a batch


@pytest.mark.parametrize("network", NETS, ids=str)
def test_leading_dimensions_are_networks_of_their_own(network):
    """θ (2, 3, p) on images (2, 3, n, d), and one set of images for all."""
    vectors, x = normal(2, 3, network.n_params), normal(2, 3, 6, 5, seed=1)
    found, shared = (
        network(network.unflatten(vectors), x),
        network(network.unflatten(vectors), x[0, 0]),
    )
    for s in range(2):
        for k in range(3):
            alone = Sequential(network, network.unflatten(vectors[s, k]))
            for outputs, images in ((found, x[s, k]), (shared, x[0, 0])):
                torch.testing.assert_close(
                    outputs[s, k], alone(images).view(outputs.shape[2:]), rtol=1e-12, atol=1e-12
                )


@pytest.mark.parametrize("network", NETS, ids=str)
def test_a_vector_is_the_parameters_one_after_the_other(network):
    theta = drawn(network)
    flat = network.flatten(theta)
    assert flat.shape == (network.n_params,)
    assert flat.tolist() == [v for name in network.shapes() for v in theta[name].flatten().tolist()]
    for leading in ((), (3,), (2, 3)):
        vector = normal(*leading, network.n_params)
        parts = network.unflatten(vector)
        assert {name: tuple(v.shape) for name, v in parts.items()} == {
            name: (*leading, *shape) for name, shape in network.shapes().items()
        }
        assert list(parts) == list(network.shapes()) and torch.equal(network.flatten(parts), vector)
    assert parts["w1"].untyped_storage().data_ptr() == vector.untyped_storage().data_ptr()  # views
    with pytest.raises(RuntimeError):
        network.unflatten(normal(network.n_params + 1))


@pytest.mark.parametrize("network", NETS, ids=str)
def test_both_passes_are_those_of_autograd(network):
    """z, h, δ = ∂Φ/∂z and what reaches h, for a gradient in the outputs that is given, and one of
    them.
    """
    theta, x, along = drawn(network), normal(6, 5), normal(6, network.widths[-1], seed=9)
    module = Sequential(network, theta)
    for direction in (lambda outputs: along, lambda outputs: along * outputs):
        outputs = module(x)
        deltas = torch.autograd.grad(
            outputs, module.zs, direction(outputs).detach(), retain_graph=True
        )
        hidden, values = module.inputs[1:], direction(outputs).detach()
        reached = torch.autograd.grad(outputs, hidden, values) if hidden else ()
        passes = network.passes(theta, x, direction)
        lengths = [len(v) for v in (passes.z, passes.h, passes.slope, passes.reached, passes.delta)]
        depth = network.depth
        assert lengths == [depth + 1, depth, depth, depth, depth + 1]
        assert (
            passes.z[0] is passes.slope[0] is passes.reached[0] is passes.delta[0] is None
            and passes.h[0] is x
        )
        for layer in range(1, depth + 1):
            torch.testing.assert_close(
                passes.z[layer], module.zs[layer - 1].detach(), rtol=1e-12, atol=1e-12
            )
            torch.testing.assert_close(
                passes.delta[layer], deltas[layer - 1], rtol=1e-8, atol=1e-10
            )
        for layer in range(1, depth):
            torch.testing.assert_close(
                passes.h[layer], module.inputs[layer].detach(), rtol=1e-12, atol=1e-12
            )
            torch.testing.assert_close(
                passes.reached[layer], reached[layer - 1], rtol=1e-8, atol=1e-10
            )
            torch.testing.assert_close(passes.slope[layer], network.slope(passes.z[layer]))
        layers = network.layers(theta, x, direction)
        assert [(each.weight, each.bias, each.shared) for each in layers] == [
            (*n, False) for n in network.names
        ]
        for each, linear in zip(
            layers, [p for p in module if isinstance(p, nn.Linear)], strict=True
        ):
            outputs = module(x)
            expected = torch.autograd.grad(
                outputs, list(linear.parameters()), direction(outputs).detach()
            )
            torch.testing.assert_close(
                each.delta.mT @ each.input, expected[0], rtol=1e-8, atol=1e-10
            )
            if each.bias:
                torch.testing.assert_close(each.delta.sum(0), expected[1], rtol=1e-8, atol=1e-10)


class SlopedReLU(torch.autograd.Function):
    """ReLU whose derivative is said to be sigmoid(10 z)."""

    @staticmethod
    def forward(context, z):
        context.save_for_backward(z)
        return z.clamp_min(0)

    @staticmethod
    def backward(context, grad):
        (z,) = context.saved_tensors
        return grad / (1 + torch.exp(-10 * z))


def test_alpha_replaces_the_derivative_of_relu_alone():
    network = MLP((5, 4, 3, 2))
    theta, x, along = drawn(network), normal(6, 5), normal(6, 2, seed=9)
    zs, h = [], x
    for weight, bias in network.names:
        zs.append((h @ theta[weight].mT + theta[bias]).requires_grad_())
        h = SlopedReLU.apply(zs[-1])
    expected = torch.autograd.grad(zs[-1], zs, along)
    found = network.layers(theta, x, lambda outputs: along, alpha=10.0)
    exact = network.layers(theta, x, lambda outputs: along)
    for each, delta in zip(found, expected, strict=True):
        torch.testing.assert_close(each.delta, delta, rtol=1e-8, atol=1e-10)
    assert not torch.allclose(found[0].delta, exact[0].delta, rtol=1e-3)
    assert all(torch.equal(a.input, b.input) for a, b in zip(found, exact, strict=True))
    smooth = MLP((5, 4, 3, 2), smoothing=2.0)  # has a derivative of its own
    with_alpha, without = (
        smooth.layers(theta, x, lambda outputs: along, alpha=alpha) for alpha in (10.0, None)
    )
    assert all(torch.equal(a.delta, b.delta) for a, b in zip(with_alpha, without, strict=True))


def test_passes_of_a_batch_are_those_of_each_network():
    network = three_layer(4, 5)
    vectors, x = normal(2, network.n_params), normal(2, 6, 5, seed=1)
    batch = network.layers(network.unflatten(vectors), x, torch.ones_like)
    for s in range(2):
        alone = network.layers(network.unflatten(vectors[s]), x[s], torch.ones_like)
        for a, b in zip(batch, alone, strict=True):
            torch.testing.assert_close(a.input[s], b.input)
            torch.testing.assert_close(a.delta[s], b.delta)


def test_smoothed_relu_by_hand():
    z = torch.tensor([-1.0, 0.0, 2.0], dtype=F64)
    assert MLP((1, 1)).activation(z).tolist() == [0.0, 0.0, 2.0]
    torch.testing.assert_close(
        MLP((1, 1), smoothing=2.0).activation(z), torch.log1p(torch.exp(2 * z)) / 2
    )


def test_networks_of_the_papers():
    assert affine(7) == MLP((7, 1)) and affine(7).depth == 1 and affine(7).dim == 7
    assert one_hidden(3, 7) == MLP((7, 3, 1)) and one_hidden(3, 7, 2.0) == MLP((7, 3, 1), None, 2.0)
    assert one_hidden(3, 7).names == [("w1", "b1"), ("w2", "b2")] and one_hidden(3, 7).depth == 2
    assert three_layer(3, 7) == MLP((7, 3, 3, 1), (True, False, False))
    assert three_layer(3, 7, 10).shapes()["w3"] == (10, 3)
    moved = MLP((7, 3, 1), (True, False), 2.0).with_inputs(4)
    assert moved == MLP((4, 3, 1), (True, False), 2.0)


@pytest.mark.parametrize("widths", [(), (3,), (3, 0), (0, 1), (3, -1, 1)])
def test_impossible_widths(widths):
    with pytest.raises(ReconError, match="at least two widths"):
        MLP(widths)


@pytest.mark.parametrize("bias", [(), (True,), (True, False, True)])
def test_biases_of_other_layers(bias):
    with pytest.raises(ReconError, match="bias must name 2 layers"):
        MLP((3, 2, 1), bias=bias)
    assert MLP((1, 1, 1)).widths == (1, 1, 1)  # the smallest there are


def test_draws_come_one_after_the_other_from_the_generator():
    network, generator = MLP((3, 2, 1)), torch.Generator().manual_seed(4)
    theta = network.init(generator, dtype=F64)
    again = torch.Generator().manual_seed(4)
    for name, fan_in in (("w1", 3), ("b1", 3), ("w2", 2), ("b2", 2)):
        u = torch.rand(network.shapes()[name], generator=again, dtype=F64)
        torch.testing.assert_close(theta[name], (2 * u - 1) * fan_in**-0.5)
    assert network.init(generator)["w1"].dtype == torch.float32
