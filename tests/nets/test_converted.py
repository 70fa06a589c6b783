"""Modules become networks of closed forms with the same answers, tensor by tensor; what differs is
refused.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recon.errors import ReconError
from recon.nets.conv import Activation, Conv
from recon.nets.converted import as_convnet, as_mlp, first_dense
from recon.nets.module import ModuleNetwork

SHAPE = (2, 7, 6)


class Convolutions(nn.Module):
    """Layers in another order than they are called in, and functions for activations."""

    def __init__(self, activation):
        super().__init__()
        self.last = nn.Linear(27, 4)
        self.second = nn.Conv2d(5, 3, 3, stride=2, padding=1, bias=False)
        self.first = nn.Conv2d(2, 5, (2, 2), bias=False)
        self.activation = activation

    def forward(self, x):
        x = self.activation(self.second(self.activation(self.first(x))))
        return self.last(x.flatten(1))


def theta_of(module, names):
    return {name: module.get_parameter(original).detach() for name, original in names.items()}


def images(*shape):
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu", "relu"])
def test_convolutions_are_taken_in_the_order_of_their_work(activation):
    module = Convolutions(getattr(F, activation)).eval()
    network, names = as_convnet(ModuleNetwork(module), SHAPE)
    assert network.convs == (Conv(2, 5), Conv(3, 3, 2, 1))
    assert network.activation == Activation(activation)
    assert list(names.values()) == ["first.weight", "second.weight", "last.weight", "last.bias"]
    x = images(*SHAPE)
    torch.testing.assert_close(network(theta_of(module, names), x), module(x).detach())


@pytest.mark.parametrize("flat", [True, False])
def test_dense_layers_are_an_mlp_whether_images_are_flat_or_not(flat):
    layers = (nn.Linear(84, 6), nn.ReLU(), nn.Linear(6, 3, bias=False))
    module = nn.Sequential(*layers) if flat else nn.Sequential(nn.Flatten(), *layers)
    network, names = as_mlp(ModuleNetwork(module.eval()), SHAPE)
    assert network.widths == (84, 6, 3) and network.bias == (True, False)
    x = images(84) if flat else images(*SHAPE)
    answers = network(theta_of(module, names), x.flatten(1))
    torch.testing.assert_close(answers, module(x).detach())


def test_a_single_layer_without_a_name_of_its_own():
    module = ModuleNetwork(nn.Linear(84, 1).eval())
    assert first_dense(module, SHAPE) == "weight"
    assert as_mlp(module, SHAPE)[1] == {"w1": "weight", "b1": "bias"}


def test_one_logit_an_image_may_come_without_an_axis_of_its_own():
    module = ModuleNetwork(nn.Sequential(nn.Flatten(), nn.Linear(84, 1), nn.Flatten(0)).eval())
    assert first_dense(module, SHAPE) == "1.weight"


def tied():
    module = nn.Sequential(nn.Flatten(), nn.Linear(84, 84), nn.ReLU(), nn.Linear(84, 84))
    module[3].weight = module[1].weight
    return module


@pytest.mark.parametrize(
    ("convert", "module", "message"),
    [
        (
            as_convnet,
            nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.Flatten()),
            "dense with a bias",
        ),
        (as_convnet, nn.Conv2d(2, 3, 3), r"answers of shape \(8, 3, 5, 4\)"),
        (as_convnet, nn.Flatten(), "no layers"),
        (
            as_mlp,
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1)),
            "not given the whole image",
        ),
        (as_mlp, nn.Sequential(nn.Linear(84, 3), nn.Tanh(), nn.Linear(3, 2)), "has Linear, Tanh"),
        (as_mlp, tied(), "belongs to no layer"),
        (
            first_dense,
            nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(84, 2)),
            "no dense layer is given the image",
        ),
        (first_dense, nn.LSTM(84, 2), "belongs to no layer that is called"),
    ],
)
def test_what_is_no_chain_of_layers_is_refused(convert, module, message):
    with pytest.raises(ReconError, match=message):
        convert(ModuleNetwork(module.eval()), SHAPE)
