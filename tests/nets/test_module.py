"""Modules as functions of their parameters: a residual block with batch norm, work in place, and
what is refused.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recon.errors import ReconError
from recon.nets.module import ModuleNetwork

F64, N = torch.float64, 4


class Residual(nn.Module):
    """Two convolutions with batch norm, a shortcut, and work in place; then one fully connected
    layer.
    """

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


@pytest.mark.parametrize("classes", [1, 3])
def test_outputs_and_gradient_are_those_of_the_module(classes):
    network, x, y = residual(classes), images(), torch.tensor([0, 2, 1, 1]) % classes
    theta = {name: 1.1 * value for name, value in network.parameters().items()}
    outputs = network(theta, x)
    found = network.gradient(
        theta, lambda outputs, y: F.cross_entropy(outputs + outputs.square(), y), x, y
    )
    network.module.load_state_dict({**network.module.state_dict(), **theta})
    own = network.module(x)
    F.cross_entropy(own + own.square(), y).backward()
    torch.testing.assert_close(outputs, own[:, 0] if classes == 1 else own)
    for name, parameter in network.module.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, msg=name)
    assert list(found) == list(network.shapes()) and outputs.shape == (
        (N,) if classes == 1 else (N, 3)
    )


def test_the_module_is_left_as_it_was():
    network, x = residual(), images()
    before = {name: value.clone() for name, value in network.module.state_dict().items()}
    theta = {name: 2 * value for name, value in network.parameters().items()}
    network.gradient(theta, F.cross_entropy, x, torch.tensor([0, 2, 1, 1]))
    assert all(
        torch.equal(before[name], value) for name, value in network.module.state_dict().items()
    )
    assert not any(value.requires_grad for value in theta.values())
    network.parameters()["head.bias"].zero_()
    assert network.module.head.bias.abs().max() > 0


def test_a_module_in_training_mode_is_refused():
    with pytest.raises(ReconError, match="evaluation mode"):
        ModuleNetwork(Residual())
