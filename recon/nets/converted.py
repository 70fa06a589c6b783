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
from recon.nets.module import Call, ModuleNetwork, is_layer, watched
from recon.nets.network import Params

Shape = tuple[int, ...]
#: name of a tensor in the converted network -> its name in the module
Names = dict[str, str]
PROBES, SAME = 8, 1e-8  # random inputs; how alike answers must be, in float64
OTHERWISE = "DLG, CosineTV and Gauss–Newton take any module"


@dataclass(frozen=True)
class Watched:
    """A module at work in float64: inputs x (n, *shape), answers (n, K), layers with parameters in
    their order, the parameters by name, and its parts in words.
    """

    x: Tensor
    answers: Tensor
    layers: list[Call]
    theta: Params
    parts: str

    @staticmethod
    def of(network: ModuleNetwork, shape: Shape) -> Watched:
        """On images of `shape`, or on flat ones where it takes those. ReconError where it takes
        neither, where it uses a layer twice, and for parameters that belong to none of the layers
        that are called.
        """
        copied = ModuleNetwork(copy.deepcopy(network.module).double())
        theta = copied.parameters()
        device = next(iter(theta.values())).device if theta else None
        x = (
            torch.rand(
                PROBES, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
            ).to(device)
            - 0.5
        )
        _, answers, used = watched(copied.module, x)
        working = [each for each in used if is_layer(each.module)]
        if len({each.name for each in working}) < len(working):
            raise ReconError("a layer that is used more than once has no closed form")
        known = {
            f"{each.name}.{own}"
            for each in working
            for own, _ in each.module.named_parameters(recurse=False)
        }
        if strange := sorted(set(theta) - {name.removeprefix(".") for name in known}):
            raise ReconError(f"the parameter '{strange[0]}' belongs to no layer that is called")
        parts = ", ".join(dict.fromkeys(_named(each.module) for each in used))
        return Watched(x, answers.reshape(PROBES, -1), working, theta, parts)

    def agree(self, answers: Tensor) -> bool:
        """Whether these (n,) or (n, K) are the module's."""
        return torch.allclose(answers.reshape(len(self.x), -1), self.answers, rtol=SAME, atol=SAME)


def _named(layer: nn.Module) -> str:
    return (
        f"LeakyReLU({layer.negative_slope})"
        if isinstance(layer, nn.LeakyReLU)
        else type(layer).__name__
    )


def first_dense(network: ModuleNetwork, shape: Shape) -> str:
    """Name of the weight (h, d) of the dense layer that is given the whole image; ReconError where
    there is none.
    """
    seen = Watched.of(network, shape)
    for each in seen.layers:
        if isinstance(each.module, nn.Linear) and torch.equal(
            each.given.reshape(PROBES, -1), seen.x.flatten(1)
        ):
            return f"{each.name}.weight".removeprefix(".")
    first = type(seen.layers[0].module).__name__ if seen.layers else "module without layers"
    raise ReconError(f"no dense layer is given the image itself: the first layer is a {first}")


def as_mlp(network: ModuleNetwork, shape: Shape) -> tuple[MLP, Names]:
    """Dense layers with ReLU between them; ReconError for any other module."""
    seen = Watched.of(network, shape)
    for each in seen.layers:
        if not isinstance(each.module, nn.Linear):
            raise ReconError(
                f"the layer '{each.name}' is a {_named(each.module)}: dense layers with ReLU are"
                " wanted"
            )
    layers = [
        (each.name, each.module) for each in seen.layers if isinstance(each.module, nn.Linear)
    ]
    if not layers or layers[0][1].in_features != math.prod(shape):
        raise ReconError("the first dense layer is not given the whole image")
    widths = (layers[0][1].in_features, *(layer.out_features for _, layer in layers))
    found = MLP(widths, tuple(layer.bias is not None for _, layer in layers))
    names = _paired(found.names, [name for name, _ in layers])
    chained = all(
        layer.in_features == width for (_, layer), width in zip(layers, widths, strict=False)
    )
    if not (
        chained
        and seen.agree(found({own: seen.theta[n] for own, n in names.items()}, seen.x.flatten(1)))
    ):
        raise ReconError(
            f"its answers are not those of dense layers with ReLU between them: it has {seen.parts}"
        )
    return found, names


def as_convnet(network: ModuleNetwork, shape: Shape) -> tuple[ConvNet, Names]:
    """Convolutions without bias, each followed by tanh, LeakyReLU(0.01) or ReLU, then one dense
    layer with a bias. ReconError for any other module: the linear systems of a layer know no bias,
    no groups and no dilation.
    """
    seen = Watched.of(network, shape)
    if not seen.layers:
        raise ReconError("the module has no layers")
    *convolutions, last = seen.layers
    if not isinstance(last.module, nn.Linear) or last.module.bias is None:
        raise ReconError("layer by layer, the last layer must be a dense one with a bias")
    if len(shape) != 3:
        raise ReconError(f"layer by layer, images have shape (C, H, W), not {tuple(shape)}")
    convs = tuple(_conv(each) for each in convolutions)
    pairs: list[tuple[str, str | None]] = [(f"w{i}", None) for i in range(1, len(convs) + 1)]
    pairs.append((f"w{len(convs) + 1}", f"b{len(convs) + 1}"))
    names = _paired(pairs, [each.name for each in seen.layers])
    for name in ("tanh", "leaky_relu", "relu"):
        found = ConvNet(
            convs, (shape[0], shape[1], shape[2]), last.module.out_features, Activation(name)
        )
        theta = {own: seen.theta[n] for own, n in names.items()}
        if found.shapes() == {own: tuple(t.shape) for own, t in theta.items()} and seen.agree(
            found(theta, seen.x)
        ):
            return found, names
    raise ReconError(
        f"its answers are not those of convolutions, each with tanh, LeakyReLU({SLOPE}) or ReLU,"
        f" and a dense layer: it has {seen.parts}; {OTHERWISE}"
    )


def _conv(used: Call) -> Conv:
    layer = used.module
    if not isinstance(layer, nn.Conv2d):
        raise ReconError(
            f"the layer '{used.name}' is a {_named(layer)}, which no linear system is for;"
            f" {OTHERWISE}"
        )
    odd = {
        "a bias": layer.bias is not None,
        f"{layer.groups} groups": layer.groups != 1,
        f"dilation {layer.dilation}": set(layer.dilation) != {1},
        f"a kernel of {layer.kernel_size}": len(set(layer.kernel_size)) > 1,
        f"strides {layer.stride}": len(set(layer.stride)) > 1,
        f"padding {layer.padding} with {layer.padding_mode}": (
            isinstance(layer.padding, str)
            or len(set(layer.padding)) > 1
            or layer.padding_mode != "zeros"
        ),
    }
    for what, is_odd in odd.items():
        if is_odd:
            raise ReconError(
                f"the convolution '{used.name}' has {what}, which linear systems do not know;"
                f" {OTHERWISE}"
            )
    return Conv(layer.kernel_size[0], layer.out_channels, layer.stride[0], int(layer.padding[0]))


def _paired(own: list[tuple[str, str | None]], stems: list[str]) -> Names:
    found: Names = {}
    for (weight, bias), stem in zip(own, stems, strict=True):
        found[weight] = f"{stem}.weight".removeprefix(".")
        if bias:
            found[bias] = f"{stem}.bias".removeprefix(".")
    return found
