"""Modules as networks: a residual block with batch norm, convolutions, work in place, and what is refused."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from recon.errors import ReconError
from recon.nets.gram import gram_matrix, output_direction, per_image_gradients, products_with_theta
from recon.nets.module import ModuleNetwork

F64, N = torch.float64, 4


class Residual(nn.Module):
    """Two convolutions with batch norm, a shortcut, and work in place; then one fully connected layer."""

    def __init__(self, classes=3):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=2, dilation=2)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(4 * 3 * 3, classes)

    def forward(self, x):
        h = self.relu(self.norm(self.first(x)))
        out = self.second(h)
        out += h
        return self.head(self.relu(out).flatten(1))


def residual(classes=3, seed=0):
    """With running means and variances of their own."""
    with torch.random.fork_rng():
        torch.random.manual_seed(seed)  # modules draw from the global generator
        module = Residual(classes).double()
        module.norm.running_mean.normal_()
        module.norm.running_var.uniform_(0.5, 2)
        module.norm.weight.data.normal_()
    return ModuleNetwork(module.eval())


def images(seed=1):
    return torch.randn(N, 2, 5, 6, generator=torch.Generator().manual_seed(seed), dtype=F64)


def close(ours, theirs):
    return ours.shape == theirs.shape and (ours - theirs).norm() <= 1e-10 * theirs.norm().clamp_min(1e-3)


def one_by_one(network, theta, x, along):
    """∇_θ Φ(x_i) by one plain backward pass for each image, through the module itself."""
    found = {name: [] for name in network.shapes()}
    network.module.load_state_dict({**network.module.state_dict(), **theta})
    for image, weights in zip(x, along, strict=True):
        network.module.zero_grad()
        (network.module(image[None])[0] * weights).sum().backward()
        for name, parameter in network.module.named_parameters():
            found[name].append(parameter.grad.clone())
    return {name: torch.stack(gradients) for name, gradients in found.items()}


@pytest.mark.parametrize("classes", [1, 3])
def test_residual_block_with_batch_norm(classes):
    network, x = residual(classes), images()
    labels = torch.tensor([0, 2, 1, 1]) if classes > 1 else None
    direction = partial(output_direction, labels=labels)
    theta = {name: 1.1 * value for name, value in network.parameters().items()}
    outputs = network(theta, x)
    assert outputs.shape == ((N,) if classes == 1 else (N, 3))
    along = direction(outputs.reshape(N, classes))
    expected = one_by_one(network, theta, x, along)
    found = network.per_image_gradients(theta, x, direction)
    assert list(found) == list(network.shapes()) == list(expected)
    for name in expected:
        assert close(found[name], expected[name]), name

    passes = network.layers(theta, x, direction)
    names = [(p.weight, p.bias) for p in passes]
    assert names == [("first.weight", None), ("second.weight", "second.bias"), ("head.weight", "head.bias")]
    assert [p.shared for p in passes] == [True, True, False]
    for name, value in per_image_gradients(passes).items():
        assert close(value.flatten(1), expected[name].flatten(1)), name
    for p in passes:
        pair = [name for name in (p.weight, p.bias) if name]
        rows = torch.cat([expected[name].flatten(1) for name in pair], dim=1)
        own = torch.cat([theta[name].flatten() for name in pair])
        assert close(gram_matrix(p), rows @ rows.T) and close(products_with_theta(theta, p), rows @ own)


def test_the_module_is_left_as_it_was():
    network, x = residual(), images()
    before = {name: value.clone() for name, value in network.module.state_dict().items()}
    theta = {name: 2 * value for name, value in network.parameters().items()}
    network.layers(theta, x, torch.ones_like)
    network.per_image_gradients(theta, x, torch.ones_like)
    assert all(torch.equal(before[name], value) for name, value in network.module.state_dict().items())
    assert not any(layer._forward_hooks for layer in network.module.modules())
    assert not any(value.requires_grad for value in theta.values())
    network.parameters()["head.bias"].zero_()
    assert network.module.head.bias.abs().max() > 0


def test_hooks_go_even_if_the_module_fails():
    network = residual()
    with pytest.raises(RuntimeError):
        network.layers(network.parameters(), torch.zeros(1, 5, 5, 5, dtype=F64), torch.ones_like)
    assert not any(layer._forward_hooks for layer in network.module.modules())


def test_what_has_no_layers_pass_is_one_sentence():
    with pytest.raises(ReconError, match="evaluation mode"):
        ModuleNetwork(Residual())
    layer = nn.Linear(3, 3)
    twice = ModuleNetwork(nn.Sequential(layer, nn.ReLU(), layer).eval())
    with pytest.raises(ReconError, match="more than once"):
        twice.layers(twice.parameters(), torch.ones(2, 3), torch.ones_like)
    assert twice.per_image_gradients(twice.parameters(), torch.ones(2, 3), torch.ones_like)["0.weight"].shape == (
        2,
        3,
        3,
    )
    for other in ({"groups": 2}, {"padding": 1, "padding_mode": "reflect"}, {"padding": "same"}):
        odd = ModuleNetwork(nn.Sequential(nn.Conv2d(2, 2, 3, **other), nn.Flatten()).eval())
        with pytest.raises(ReconError, match="one group"):
            odd.layers(odd.parameters(), torch.ones(1, 2, 5, 5), torch.ones_like)


def test_a_single_layer_is_a_module_too():
    network = ModuleNetwork(nn.Linear(3, 1).double().eval())
    x = torch.arange(6, dtype=F64).view(2, 3)
    (only,) = network.layers(network.parameters(), x, torch.ones_like)
    assert (only.weight, only.bias) == ("weight", "bias")
    assert torch.equal(only.input, x) and torch.equal(only.delta, torch.ones(2, 1, dtype=F64))


def test_a_linear_layer_applied_at_every_position():
    network = ModuleNetwork(nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(10, 1)).double().eval())
    theta, x = network.parameters(), torch.randn(N, 5, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
    expected = network.per_image_gradients(theta, x, torch.ones_like)
    passes = network.layers(theta, x, torch.ones_like)
    assert [p.shared for p in passes] == [True, False]
    for name, value in per_image_gradients(passes).items():
        assert close(value, expected[name])
    own = (expected["0.weight"] * theta["0.weight"]).sum((1, 2)) + expected["0.bias"] @ theta["0.bias"]
    assert close(products_with_theta(theta, passes[0]), own)


class Shortcut(nn.Module):
    """Adds a layer's output to its input in place."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        h = x.tanh()
        h += self.layer(h)
        return h


def test_an_input_that_is_changed_afterwards_is_kept_as_it_was():
    network, x = ModuleNetwork(Shortcut().double().eval()), torch.ones(2, 3, dtype=F64)
    (only,) = network.layers(network.parameters(), x, torch.ones_like)
    assert torch.equal(only.input, x.tanh())
