"""The fully connected network's names, its initial weights, its outputs and its derivative.

Its passes are tried in `test_gram.py`.
"""

from __future__ import annotations

import pytest
import torch
from small_networks import normal
from torch import nn

from recon.errors import ReconError
from recon.nets.mlp import MLP, affine, one_hidden, three_layer

F64 = torch.float64
NETS = [
    affine(5),
    one_hidden(4, 5, smoothing=3.0),
    three_layer(4, 5, outputs=3),
    MLP((5, 3, 4, 1), bias=(False, False, True), smoothing=0.7),
    MLP((5, 3, 3, 2, 1)),
]


def sequential(network, theta):
    """The same network as PyTorch writes it, weights included."""
    sigma = nn.ReLU() if network.smoothing is None else nn.Softplus(network.smoothing)
    parts = []
    for weight, bias in network.names:
        linear = nn.Linear(*theta[weight].shape[::-1], bias=bias is not None, dtype=F64)
        linear.weight.data.copy_(theta[weight])
        if bias is not None:
            linear.bias.data.copy_(theta[bias])
        parts += [linear, sigma]
    return nn.Sequential(*parts[:-1])


def test_names_and_shapes_leave_missing_biases_out():
    network = MLP((4, 3, 2), bias=(False, True))
    assert network.names == [("w1", None), ("w2", "b2")]
    assert list(network.shapes().items()) == [("w1", (3, 4)), ("w2", (2, 3)), ("b2", (2,))]
    assert network.n_params == 12 + 6 + 2 and network.dim == 4


@pytest.mark.parametrize("scheme", ["default", "uniform", "small"])
def test_initial_weights_have_their_scheme_s_scale(scheme):
    network = MLP((50, 40, 30, 1))
    theta = network.init(torch.Generator().manual_seed(0), scheme)
    for (weight, bias), fan_in in zip(network.names, network.widths, strict=False):
        for value in (theta[weight], theta[bias]):
            if value.numel() < 10:
                continue
            if scheme == "small" and weight == "w1":
                assert value.std().item() == pytest.approx(1e-4, rel=0.3)
            elif scheme == "uniform":
                assert value.min() >= 0 and 0.8 < value.max() <= 1
            else:
                bound = fan_in**-0.5
                assert 0.8 * bound < value.max() <= bound and -bound <= value.min() < -0.8 * bound


def test_draws_come_one_after_the_other_from_the_generator():
    network, generator = MLP((3, 2, 1)), torch.Generator().manual_seed(4)
    theta = network.init(torch.Generator().manual_seed(4), dtype=F64)
    for name, fan_in in (("w1", 3), ("b1", 3), ("w2", 2), ("b2", 2)):
        u = torch.rand(network.shapes()[name], generator=generator, dtype=F64)
        torch.testing.assert_close(theta[name], (2 * u - 1) * fan_in**-0.5)


@pytest.mark.parametrize("network", NETS, ids=str)
def test_leading_dimensions_are_networks_of_their_own(network):
    """θ (2, p) on images (2, n, d), and one set of images for all; outputs are PyTorch's."""
    vectors, x = normal(2, network.n_params), normal(2, 6, 5, seed=1)
    theta = network.unflatten(vectors)
    outputs, shared = network(theta, x), network(theta, x[0])
    assert outputs.shape == ((2, 6) if network.widths[-1] == 1 else (2, 6, network.widths[-1]))
    for s in range(2):
        alone = sequential(network, network.unflatten(vectors[s]))
        torch.testing.assert_close(outputs[s], alone(x[s]).view(outputs.shape[1:]))
        torch.testing.assert_close(shared[s], alone(x[0]).view(outputs.shape[1:]))
    assert network(theta, x[:, :1]).shape == outputs[:, :1].shape  # one image is still a batch


@pytest.mark.parametrize("network", NETS, ids=str)
def test_a_vector_is_the_parameters_one_after_the_other(network):
    vector = normal(3, network.n_params)
    theta = network.unflatten(vector)
    assert list(theta) == list(network.shapes())
    assert {name: tuple(v.shape[1:]) for name, v in theta.items()} == network.shapes()
    assert torch.equal(torch.cat([v.flatten(1) for v in theta.values()], 1), vector)
    assert torch.equal(network.flatten(theta), vector)
    assert theta["w1"].untyped_storage().data_ptr() == vector.untyped_storage().data_ptr()  # views


def test_slope_and_activation_by_hand():
    z = torch.tensor([-1.0, 0.0, 2.0], dtype=F64)
    plain, smooth = MLP((1, 1)), MLP((1, 1), smoothing=2.0)
    assert plain.slope(z).tolist() == [0.0, 0.0, 1.0]
    assert plain.activation(z).tolist() == [0.0, 0.0, 2.0]
    torch.testing.assert_close(plain.slope(z, 3.0), 1 / (1 + torch.exp(-3 * z)))
    # a smooth net has a derivative of its own: alpha does not count
    torch.testing.assert_close(smooth.slope(z, 3.0), 1 / (1 + torch.exp(-2 * z)))
    torch.testing.assert_close(smooth.activation(z), torch.log1p(torch.exp(2 * z)) / 2)


def test_networks_of_the_papers():
    assert affine(7) == MLP((7, 1))
    assert one_hidden(3, 7, 2.0) == MLP((7, 3, 1), None, 2.0)
    assert three_layer(3, 7) == MLP((7, 3, 3, 1), (True, False, False))
    moved = MLP((7, 3, 1), (True, False), 2.0).with_inputs(4)
    assert moved == MLP((4, 3, 1), (True, False), 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MLP((3,)), "at least two widths"),
        (lambda: MLP((3, 0)), "at least two widths"),
        (lambda: MLP((3, 2, 1), bias=(True,)), "bias must name 2 layers"),
        (lambda: affine(3).init(torch.Generator(), "large"), "unknown weight initialisation"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ReconError, match=message):
        call()
