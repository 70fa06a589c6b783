"""Modules as functions of their parameters: a residual block with batch norm, work in place, and
what is refused.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recon.errors import ReconError
from recon.nets.module import ModuleNetwork, watch_layers


class Residual(nn.Module):
    """A convolution with batch norm, a shortcut, and work in place; then one dense layer."""

    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(4 * 3 * 3, classes)

    def forward(self, x):
        h = self.relu(self.norm(self.first(x)))
        out = self.second(h)
        out += h
        return self.head(self.relu(out).flatten(1))


@pytest.mark.parametrize("classes", [1, 3])
def test_outputs_and_gradient_are_those_of_the_module_which_is_left_as_it_was(classes):
    module = Residual(classes).double().eval()
    module.norm.running_var.uniform_(0.5, 2)  # other than the images'
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.randn(4, 2, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y, network = torch.tensor([0, 2, 1, 1]) % classes, ModuleNetwork(module)

    def loss(outputs, y):
        return F.cross_entropy(outputs + outputs.square(), y)

    theta = {name: 1.1 * value for name, value in network.parameters().items()}
    outputs, gradient = network(theta, x), network.gradient(theta, loss, x, y)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert not any(value.requires_grad for value in theta.values())
    module.load_state_dict({**before, **theta})
    expected = module(x)
    loss(expected, y).backward()
    torch.testing.assert_close(outputs, expected[:, 0] if classes == 1 else expected)
    assert list(gradient) == list(network.shapes())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradient[name], parameter.grad)


def test_a_module_in_training_mode_is_refused():
    with pytest.raises(ReconError, match="evaluation mode"):
        ModuleNetwork(Residual(3))


class Wrapped(nn.Module):
    """Two dense layers whose answers come in something."""

    def __init__(self, wrap):
        super().__init__()
        self.inner, self.wrap = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3)), wrap

    def forward(self, x):
        return self.wrap(self.inner(x.flatten(1)))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda answers: answers,
        lambda answers: (answers, answers.mean()),
        lambda answers: [answers],
        lambda answers: {"logits": answers},
        lambda answers: SimpleNamespace(logits=answers),
    ],
)
def test_layers_are_watched_at_work_whatever_their_answers_come_in(wrap):
    module, x = Wrapped(wrap), torch.randn(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    flat, answers, calls = watch_layers(module, x)
    assert not flat and torch.equal(answers, module.inner(x.flatten(1)))
    assert [call.name for call in calls] == ["inner.0", "inner.1", "inner.2"]
    assert torch.equal(calls[0].inputs, x.flatten(1)) and torch.equal(calls[2].outputs, answers)
    assert watch_layers(module.inner, x)[0]  # which takes images flat


@pytest.mark.parametrize("layer", [nn.Flatten(0), nn.Linear(5, 3)])
def test_what_classifies_no_images_is_refused(layer):
    with pytest.raises(ReconError, match="does not classify images of 3 × 2 × 2"):
        watch_layers(layer, torch.ones(5, 3, 2, 2))
