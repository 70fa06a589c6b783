"""Convolutional networks against PyTorch's modules and torch.func."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_networks import CONVS, SHAPE, SMALL, STRIDED, some_images, theta_of, with_activation
from torch import nn

from companion.chapters.leakage_common import SEED, TABLE_1
from recon.errors import ReconError
from recon.nets.conv import Activation, Conv, ConvNet, cross_entropy_direction

MODULES = {"tanh": nn.Tanh, "leaky_relu": nn.LeakyReLU, "relu": nn.ReLU}


def module_of(network: ConvNet) -> nn.Sequential:
    """The same network as PyTorch writes it."""
    parts, channels = [], network.shape[0]
    for conv in network.convs:
        parts.append(
            nn.Conv2d(channels, conv.channels, conv.kernel, conv.stride, conv.padding, bias=False)
        )
        parts.append(MODULES[network.activation.name]())
        channels = conv.channels
    return nn.Sequential(*parts, nn.Flatten(), nn.LazyLinear(network.classes)).double()


@pytest.mark.parametrize(
    "network", [SMALL, STRIDED, TABLE_1["CNN4 V2"]], ids=["small", "strided", "CNN4 V2"]
)
@pytest.mark.parametrize("activation", ["tanh", "leaky_relu", "relu"])
def test_logits_and_gradients_are_those_of_a_module(network, activation):
    """Per-image gradients of the cross-entropy, by torch.func through PyTorch's own layers."""
    network = with_activation(network, activation)
    theta, module = theta_of(network), module_of(network)
    x, labels = some_images(network), torch.tensor([2, 1])
    module(x)  # makes the lazy layer
    names = [name for name, _ in module.named_parameters()]
    theirs = dict(zip(names, theta.values(), strict=True))

    def loss(params, image, label):
        return F.cross_entropy(torch.func.functional_call(module, params, image[None]), label[None])

    expected = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(theirs, x, labels)
    torch.testing.assert_close(
        network(theta, x), torch.func.functional_call(module, theirs, x), rtol=1e-10, atol=1e-13
    )
    gradients = network.gradients(theta, x, labels)
    assert list(gradients) == list(theta) == list(network.shapes())
    for name, gradient in zip(names, gradients.values(), strict=True):
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-14)


def test_initialisation_is_pytorchs_right_after_the_seed():
    torch.manual_seed(SEED)
    modules = [nn.Conv2d(3, 6, 4, 2, bias=False), nn.Conv2d(6, 3, 3, 2, bias=False)]
    modules.append(nn.Linear(147, 10))
    expected = [parameter for module in modules for parameter in module.parameters()]
    state = torch.get_rng_state()
    theta = TABLE_1["CNN3 V2"].init(torch.Generator().manual_seed(SEED))
    assert list(theta) == ["w1", "w2", "w3", "b3"]
    for ours, theirs in zip(theta.values(), expected, strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's random numbers change
    # the published draws, in another precision
    double = TABLE_1["CNN3 V2"].init(torch.Generator().manual_seed(SEED), torch.float64)
    assert torch.equal(double["b3"], theta["b3"].double())


def test_a_chain_from_a_later_layer_is_the_end_of_the_whole():
    theta, x = theta_of(STRIDED), some_images(STRIDED)
    direction = cross_entropy_direction(torch.tensor([0, 2]))
    whole, outputs = STRIDED.chain(theta, x, direction)
    first = STRIDED.convs[0].apply(x, theta["w1"])
    later, later_outputs = STRIDED.chain(theta, STRIDED.activation(first), direction, first=2)
    torch.testing.assert_close(outputs, [first.flatten(2), *later_outputs])
    for ours, theirs in zip(later, whole[1:], strict=True):
        assert ours.weight == theirs.weight
        torch.testing.assert_close((ours.input, ours.delta), (theirs.input, theirs.delta))


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_a_convolution_in_patches_and_backwards(conv):
    """For any kernel, stride, padding, also where (h + 2p − k) is no multiple of the stride."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, *SHAPE, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(
        conv.channels, SHAPE[0], conv.kernel, conv.kernel, generator=generator, dtype=torch.float64
    )
    z = conv.apply(x, weight)
    assert tuple(z.shape[1:]) == conv.output(SHAPE)
    delta = torch.randn(z.shape, generator=generator, dtype=torch.float64)
    (expected,) = torch.autograd.grad((z * delta).sum(), x)
    torch.testing.assert_close(
        conv.transpose(delta, weight, SHAPE), expected, rtol=1e-9, atol=1e-12
    )
    torch.testing.assert_close(
        (weight.flatten(1) @ conv.patches(x)).view_as(z), z, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("name", ["tanh", "leaky_relu", "relu"])
def test_slope_and_inverse_of_an_activation(name):
    sigma = Activation(name)
    # not at 0, where ReLUs have no derivative
    z = torch.linspace(-3, 3, 40, dtype=torch.float64).requires_grad_()
    x = sigma(z)
    (slope,) = torch.autograd.grad(x.sum(), z)
    torch.testing.assert_close(sigma.slope(x.detach()), slope)
    bend = torch.func.vmap(torch.func.grad(sigma.slope))(x.detach())
    torch.testing.assert_close(sigma.bend(x.detach()), bend)
    if name != "relu":
        torch.testing.assert_close(sigma.inverse(x.detach()), z.detach(), rtol=1e-9, atol=1e-12)
    if name == "tanh":  # what cannot have come out of it is clipped, as in the paper's code
        torch.testing.assert_close(
            sigma.inverse(torch.tensor([-2.0, 1.0])).tanh(), torch.tensor([-0.9999, 0.9999])
        )
    zero = torch.zeros(1)  # a ReLU's derivative at 0 is PyTorch's: that of the lower side
    assert sigma.slope(zero).item() == torch.func.grad(lambda v: sigma(v).sum())(zero).item()


def test_table_1_is_the_papers():
    sizes = {
        "CNN2 V1": "6×30",
        "CNN2 V2": "6×15",
        "CNN3 V1": "6×30 3×14",
        "CNN3 V2": "6×15 3×7",
        "CNN3 V3": "6×30 9×28",
        "CNN3 V4": "1×30 6×28",
        "CNN4 V1": "6×30 5×14 3×11",
        "CNN4 V2": "16×28 6×12 32×12",
    }
    for name, network in TABLE_1.items():
        shapes = network.image_shapes()[1:]
        assert " ".join(f"{channels}×{side}" for channels, side, _ in shapes) == sizes[name]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Activation("sigmoid"), "unsupported activation"),
        (lambda: Activation("relu").inverse(torch.ones(1)), "not invertible"),
        (lambda: ConvNet((Conv(9, 2),), shape=(1, 5, 5)).shapes(), "does not fit"),
        (lambda: ConvNet((Conv(6, 2),), shape=(1, 5, 5)).shapes(), "does not fit"),
        (lambda: Conv(3, 0).output((1, 5, 5)), "does not fit"),
        (lambda: Conv(3, 2, 1, -1).output((1, 9, 9)), "does not fit"),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises(ReconError, match=sentence):
        call()
