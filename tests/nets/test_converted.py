"""Modules become networks of closed forms with the same answers, tensor by tensor; what differs is
said.
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


@pytest.mark.parametrize(
    ("function", "name"),
    [(torch.tanh, "tanh"), (F.leaky_relu, "leaky_relu"), (F.relu, "relu")],
    ids=("tanh", "leaky_relu", "relu"),
)
def test_convolutions_are_found_in_the_order_of_their_work(function, name):
    module = Convolutions(function)
    network, names = as_convnet(ModuleNetwork(module.eval()), SHAPE)
    assert (
        network.convs == (Conv(2, 5), Conv(3, 3, 2, 1))
        and network.shape == SHAPE
        and network.classes == 4
    )
    assert network.activation == Activation(name)
    assert names == {
        "w1": "first.weight",
        "w2": "second.weight",
        "w3": "last.weight",
        "b3": "last.bias",
    }
    theta = {own: module.get_parameter(other).detach() for own, other in names.items()}
    x = torch.randn(3, *SHAPE, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(network(theta, x), module(x).detach())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("flat", [True, False])
def test_dense_layers_are_an_mlp_whether_images_are_flat_or_not(bias, flat):
    layers = (
        nn.Linear(84, 6, bias=bias),
        nn.ReLU(),
        nn.Linear(6, 5),
        nn.ReLU(),
        nn.Linear(5, 3, bias=False),
    )
    module = nn.Sequential(*layers) if flat else nn.Sequential(nn.Flatten(), *layers)
    network, names = as_mlp(ModuleNetwork(module.eval()), SHAPE)
    assert network.widths == (84, 6, 5, 3) and network.bias == (bias, True, False)
    theta = {own: module.get_parameter(other).detach() for own, other in names.items()}
    x = torch.randn(4, 84, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(network(theta, x), module(x if flat else x.view(4, *SHAPE)).detach())


def test_a_single_layer_without_a_name_of_its_own():
    module = ModuleNetwork(nn.Linear(84, 1).eval())
    assert first_dense(module, SHAPE) == "weight"
    assert as_mlp(module, SHAPE)[1] == {"w1": "weight", "b1": "bias"}


def test_one_logit_an_image_may_come_without_an_axis_of_its_own():
    module = ModuleNetwork(nn.Sequential(nn.Flatten(), nn.Linear(84, 1), nn.Flatten(0)).eval())
    assert first_dense(module, SHAPE) == "1.weight"


def test_what_is_no_chain_of_layers_is_refused():
    def refused(convert, module, said):
        with pytest.raises(ReconError, match=said):
            convert(ModuleNetwork(module.eval()), SHAPE)

    refused(
        as_convnet,
        nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.Flatten()),
        "a dense one with a bias",
    )
    refused(as_convnet, nn.Conv2d(2, 3, 3), r"answers of shape \(8, 3, 5, 4\)")
    refused(
        as_convnet,
        nn.Sequential(nn.Flatten(), nn.Linear(84, 3, bias=False)),
        "a dense one with a bias",
    )
    refused(as_convnet, nn.Flatten(), "has no layers")
    refused(
        as_mlp,
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1)),
        "not given the whole image",
    )
    refused(
        first_dense,
        nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(84, 2)),
        "no dense layer is given the image",
    )
    refused(first_dense, nn.LSTM(84, 2), "belongs to no layer that is called")
