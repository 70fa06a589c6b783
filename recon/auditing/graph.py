"""A module from an ONNX file: its graph says which layers follow each other, and which activations stand between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.auditing.files import graph_of
from recon.errors import ReconError

PLAIN: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    "Relu": lambda _: nn.ReLU(),
    "Tanh": lambda _: nn.Tanh(),
    "Sigmoid": lambda _: nn.Sigmoid(),
    "LeakyRelu": lambda a: nn.LeakyReLU(a.get("alpha", 0.01)),
    "Elu": lambda a: nn.ELU(a.get("alpha", 1.0)),
    "Selu": lambda _: nn.SELU(),
    "Softplus": lambda _: nn.Softplus(),
    "Gelu": lambda a: nn.GELU("tanh" if a.get("approximate") == b"tanh" else "none"),
    "HardSwish": lambda _: nn.Hardswish(),
    "Softmax": lambda a: nn.Softmax(a.get("axis", -1)),
    "LogSoftmax": lambda a: nn.LogSoftmax(a.get("axis", -1)),
    "Flatten": lambda _: nn.Flatten(),
    "Reshape": lambda _: nn.Flatten(),
    "Squeeze": lambda _: nn.Flatten(),
    "Dropout": lambda _: nn.Identity(),
    "Identity": lambda _: nn.Identity(),
    "GlobalAveragePool": lambda _: nn.AdaptiveAvgPool2d(1),
}


def from_graph(path: Path) -> tuple[nn.Module, str, list[str]]:
    """(module, its layers in words, which tensor is which) of a file whose layers form one chain; ReconError for
    others, and for operations that are not known here."""
    graph, held = graph_of(path)
    named = dict(held)
    current = next((each.name for each in graph.input if each.name not in held), "")
    layers: list[nn.Module] = []
    mapping: list[str] = []
    for node in graph.node:
        attributes = {each.name: _value(each) for each in node.attribute}
        if node.op_type == "Constant":
            named[node.output[0]] = torch.as_tensor(attributes.get("value", 0))
            continue
        given = [name for name in node.input if name and name not in named]
        if node.op_type == "Identity" and not given:
            named[node.output[0]] = named[node.input[0]]
            continue
        if given != [current]:
            raise ReconError(
                f"the layers of {path} are no chain ({node.op_type} is given {', '.join(given) or 'no image'}): name "
                "the architecture with --arch, or pass the module itself to recon.audit in Python"
            )
        own = [named[name] for name in node.input if name in named]
        mapping += [f"{len(layers)} = {name}" for name in node.input if name in held and held[name].dim() > 1]
        if node.op_type == "Add" and layers and _takes_bias(layers[-1], own):
            layers[-1].bias = nn.Parameter(own[0].float().flatten())
        else:
            layers.append(_layer(node.op_type, attributes, own, path))
        current = node.output[0]
    if not any(isinstance(layer, nn.Linear | nn.Conv2d) for layer in layers):
        raise ReconError(f"{path} has no weights of layers in it")
    if isinstance(layers[0], nn.Linear):
        layers.insert(0, nn.Flatten())
    return nn.Sequential(*layers).eval(), ", ".join(type(layer).__name__ for layer in layers), mapping


def _value(attribute: Any) -> Any:
    from onnx import helper, numpy_helper

    value = helper.get_attribute_value(attribute)
    return torch.from_numpy(numpy_helper.to_array(value).copy()) if attribute.name == "value" else value


def _takes_bias(layer: nn.Module, own: list[Tensor]) -> bool:
    return isinstance(layer, nn.Linear) and layer.bias is None and len(own) == 1 and own[0].numel() == len(layer.weight)


def _layer(kind: str, a: dict[str, Any], own: list[Tensor], path: Path) -> nn.Module:
    if kind in PLAIN:
        return PLAIN[kind](a)
    if kind == "Gemm" and a.get("alpha", 1) == a.get("beta", 1) == 1 and not a.get("transA"):
        return _linear(own[0] if a.get("transB") else own[0].mT, own[1] if len(own) > 1 else None)
    if kind == "MatMul" and len(own) == 1 and own[0].dim() == 2:
        return _linear(own[0].mT, None)
    if kind == "Conv" and own[0].dim() == 4:
        return _convolution(a, own, path)
    if kind in ("MaxPool", "AveragePool") and len(a["kernel_shape"]) == 2 and not a.get("ceil_mode"):
        kernel, stride, padding = _two(a["kernel_shape"]), _two(a.get("strides", (1, 1))), _padding(a, path)
        if kind == "MaxPool":
            return nn.MaxPool2d(kernel, stride, padding)
        return nn.AvgPool2d(kernel, stride, padding, count_include_pad=bool(a.get("count_include_pad", 0)))
    if kind == "BatchNormalization" and len(own) == 4:
        return _norm(own, a.get("epsilon", 1e-5))
    raise ReconError(
        f"{path} has an operation that is not read here ({kind}): name the architecture with --arch, or pass the "
        "module itself to recon.audit in Python"
    )


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias.flatten())
    return layer


def _convolution(a: dict[str, Any], own: list[Tensor], path: Path) -> nn.Conv2d:
    weight, groups = own[0], a.get("group", 1)
    layer = nn.Conv2d(
        weight.shape[1] * groups,
        len(weight),
        _two(weight.shape[2:]),
        _two(a.get("strides", (1, 1))),
        _padding(a, path),
        _two(a.get("dilations", (1, 1))),
        groups,
        bias=len(own) > 1,
    )
    with torch.no_grad():
        layer.weight.copy_(weight)
        if layer.bias is not None:
            layer.bias.copy_(own[1])
    return layer


def _two(given: Sequence[int]) -> tuple[int, int]:
    return int(given[0]), int(given[1])


def _padding(a: dict[str, Any], path: Path) -> tuple[int, int]:
    pads = list(a.get("pads", (0, 0, 0, 0)))
    if a.get("auto_pad", b"NOTSET") != b"NOTSET" or pads[:2] != pads[2:]:
        raise ReconError(f"{path} pads images unevenly: pass the module itself to recon.audit in Python")
    return pads[0], pads[1]


def _norm(own: list[Tensor], eps: float) -> nn.Module:
    """For vectors and for images alike: batch norm of PyTorch asks which."""
    norm = _AnyNorm(len(own[0]), eps=eps)
    names = ("weight", "bias", "running_mean", "running_var")
    norm.load_state_dict(dict(zip(names, own, strict=True)), strict=False)
    return norm


class _AnyNorm(nn.BatchNorm1d):
    """Batch norm of vectors (n, C) and of images (n, C, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Any."""
