"""A module as one of the networks that closed forms know, or one sentence that says why it is none.

The module runs on random inputs with a hook at every layer. What layers are given and what the
whole answers decide, not what anything is called: a converted network has the same answers, or
there is no converted network.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.conv import SLOPE, Activation, Conv, ConvNet
from recon.nets.mlp import MLP
from recon.nets.module import Call, ModuleNetwork, is_layer, watch_layers
from recon.nets.network import Params, Shape

#: name of a tensor in the converted network -> its name in the module
Names = dict[str, str]
PROBES = 8  # random inputs
TOLERANCE = 1e-8  # how alike answers must be, in float64
OTHERWISE = "DLG, CosineTV and Gauss–Newton take any module"


@dataclass(frozen=True)
class ForwardPass:
    """A module at work in float64.

    Attributes:
        x: random inputs (n, *shape).
        answers: (n, K).
        layers: those with parameters, in the order in which they work.
        theta: the parameters by name, in the order of their layers.
        parts: the module's parts in words.
    """

    x: Tensor
    answers: Tensor
    layers: list[Call]
    theta: Params
    parts: str

    @staticmethod
    def of(network: ModuleNetwork, shape: Shape) -> ForwardPass:
        """On images of `shape`, or on flat ones where it takes those. ReconError where it takes
        neither, where it uses a layer twice, and for parameters that belong to none of the layers
        that are called, or to several.
        """
        double = ModuleNetwork(copy.deepcopy(network.module).double())
        theta = double.parameters()
        device = next(iter(theta.values())).device if theta else None
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(PROBES, *shape, generator=generator, dtype=torch.float64).to(device) - 0.5
        _, answers, calls = watch_layers(double.module, x)
        layers = [call for call in calls if is_layer(call.module)]
        names = [
            f"{call.name}.{name}".removeprefix(".")
            for call in layers
            for name, _ in call.module.named_parameters(recurse=False)
        ]
        if strange := sorted(set(theta) ^ set(names)):
            raise ReconError(f"the parameter '{strange[0]}' belongs to no layer that is called")
        if not 0 < len({call.name for call in layers}) == len(layers):
            raise ReconError("no layers, or one that is used more than once, have no closed form")
        parts = ", ".join(dict.fromkeys(_kind(call.module) for call in calls))
        ordered = {name: theta[name] for name in names}
        return ForwardPass(x, answers.reshape(PROBES, -1), layers, ordered, parts)

    def names(self, network: MLP | ConvNet) -> Names | None:
        """Of a network with as many parameters of the same shapes and the same answers, what its
        parameters are called here; None of any other.
        """
        shapes = network.shapes()
        if list(shapes.values()) != [tuple(tensor.shape) for tensor in self.theta.values()]:
            return None
        x = self.x.flatten(1) if isinstance(network, MLP) else self.x
        answers = network(dict(zip(shapes, self.theta.values(), strict=True)), x)
        if not torch.allclose(
            answers.reshape(len(x), -1), self.answers, rtol=TOLERANCE, atol=TOLERANCE
        ):
            return None
        return dict(zip(shapes, self.theta, strict=True))


def _kind(layer: nn.Module) -> str:
    if isinstance(layer, nn.LeakyReLU):
        return f"LeakyReLU({layer.negative_slope})"
    return type(layer).__name__


def first_dense(network: ModuleNetwork, shape: Shape) -> str:
    """Name of the weight (h, d) of the dense layer that is given the whole image; ReconError where
    there is none.
    """
    forward = ForwardPass.of(network, shape)
    for call in forward.layers:
        if isinstance(call.module, nn.Linear) and torch.equal(
            call.inputs.reshape(PROBES, -1), forward.x.flatten(1)
        ):
            return f"{call.name}.weight".removeprefix(".")
    raise ReconError(f"no dense layer is given the image itself: the module has {forward.parts}")


def as_mlp(network: ModuleNetwork, shape: Shape) -> tuple[MLP, Names]:
    """Dense layers with ReLU between them; ReconError for any other module."""
    forward = ForwardPass.of(network, shape)
    layers = []
    for call in forward.layers:
        if not isinstance(call.module, nn.Linear):
            raise ReconError(
                f"the layer '{call.name}' is a {_kind(call.module)}: dense layers with ReLU are"
                " wanted"
            )
        layers.append(call.module)
    if layers[0].in_features != math.prod(shape):
        raise ReconError("the first dense layer is not given the whole image")
    widths = [layers[0].in_features, *(layer.out_features for layer in layers)]
    mlp = MLP(tuple(widths), tuple(layer.bias is not None for layer in layers))
    names = forward.names(mlp)
    if names is None:
        raise ReconError(
            "its answers are not those of dense layers with ReLU between them: it has"
            f" {forward.parts}"
        )
    return mlp, names


def as_convnet(network: ModuleNetwork, shape: Shape) -> tuple[ConvNet, Names]:
    """Convolutions without bias, each followed by tanh, LeakyReLU(0.01) or ReLU, then one dense
    layer with a bias. ReconError for any other module: the linear systems of a layer know no bias,
    no groups and no dilation.
    """
    forward = ForwardPass.of(network, shape)
    *convolutions, last = forward.layers
    if not isinstance(last.module, nn.Linear) or last.module.bias is None or len(shape) != 3:
        raise ReconError(
            "layer by layer, images have shape (C, H, W), and the last layer is dense with a bias"
        )
    channels, height, width = shape
    convs = tuple(_conv(call) for call in convolutions)
    for activation in ("tanh", "leaky_relu", "relu"):
        convnet = ConvNet(
            convs, (channels, height, width), last.module.out_features, Activation(activation)
        )
        names = forward.names(convnet)
        if names is not None:
            return convnet, names
    raise ReconError(
        f"its answers are not those of convolutions, each with tanh, LeakyReLU({SLOPE}) or ReLU,"
        f" and a dense layer: it has {forward.parts}; {OTHERWISE}"
    )


def _conv(call: Call) -> Conv:
    layer = call.module
    if (
        not isinstance(layer, nn.Conv2d)
        or layer.bias is not None
        or layer.groups != 1
        or set(layer.dilation) != {1}
        or layer.padding_mode != "zeros"
        # also padding in words
        or any(len(set(side)) > 1 for side in (layer.kernel_size, layer.stride, layer.padding))
    ):
        raise ReconError(
            f"the layer '{call.name}' is {layer}, and linear systems are for convolutions without"
            f" bias, groups, dilation, sides that differ, and padding but with zeros; {OTHERWISE}"
        )
    return Conv(layer.kernel_size[0], layer.out_channels, layer.stride[0], int(layer.padding[0]))
