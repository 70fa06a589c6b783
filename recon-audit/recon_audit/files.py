"""Files of weights: safetensors and PyTorch's own as named tensors, ONNX as a module. Nothing in
them is executed.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from recon.errors import ReconError, one_reason

#: name -> tensor
State = dict[str, Tensor]

TORCH = {".pt", ".pth", ".ckpt", ".bin"}
HOLDERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "weights", "module")
#: what training scripts keep beside the weights: numbers of NumPy and the namespace of their
#: arguments, plain data
_SCALAR = np.float64(0).__reduce__()[0]  # NumPy's own reader of a pickled number
SCALARS: list[Any] = [
    np.dtype,
    (_SCALAR, "numpy.core.multiarray.scalar"),
    (_SCALAR, "numpy._core.multiarray.scalar"),
    *(
        type(np.dtype(kind))
        for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
    ),
    argparse.Namespace,
]
SAVE = "save the state_dict() of the model instead"
PASS = "pass the module itself to recon.audit in Python"


def load_state(path: Path) -> State:
    """Name -> tensor of a file, on the CPU.

    `.pt`, `.pth`, `.ckpt`, `.bin`: a state dict, or a checkpoint that holds one under a name of
    `HOLDERS`, read with `weights_only=True` · everything else: safetensors with any metadata.
    ReconError for a missing or damaged file, for TorchScript, and for a whole pickled module.
    """
    if not path.is_file():
        raise ReconError(f"there is no weights file {path}")
    if path.suffix.lower() in TORCH or zipfile.is_zipfile(path):
        return _from_torch(path)
    with one_reason(
        f"{path} is damaged or is not a safetensors file (PyTorch's own must be called .pt or .pth)"
    ):
        # read here: its own reader takes no name that is not UTF-8; cloned: the file's memory is
        # unaligned
        return {
            name: tensor.clone()
            for name, tensor in safetensors.torch.load(path.read_bytes()).items()
        }


def _from_torch(path: Path) -> State:
    try:
        with torch.serialization.safe_globals(SCALARS):
            held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a stranger's bytes make the reader say
        reason = " ".join(str(error).split())
        sentence = f"is damaged or is no file of torch.save: {reason[:120] or type(error).__name__}"
        if "TorchScript" in reason:
            sentence = f"is a TorchScript archive, which is a program and not only weights: {SAVE}"
        elif "Weights only load failed" in reason or "Unsupported" in reason:
            sentence = (
                "holds more than tensors, and unpickling a stranger's file could run any program:"
                f" {SAVE}"
            )
        raise ReconError(f"{path} {sentence}") from error
    state = _state_in(held)
    if not state:
        names = f" with {', '.join(map(str, list(held)[:6]))}" if isinstance(held, dict) else ""
        raise ReconError(f"{path} holds no state dict, but a {type(held).__name__}{names}")
    return state


def _state_in(held: Any) -> State:
    """The tensors of a state dict, or of the first of `HOLDERS` that holds one."""
    if not isinstance(held, dict):
        return {}
    for name in HOLDERS:
        if inner := _state_in(held.get(name)):
            return inner
    return {str(name): value for name, value in held.items() if isinstance(value, Tensor)}


# --------------------------------------------------------------------------------------------- ONNX

PLAIN: dict[str, type[nn.Module]] = {
    "Relu": nn.ReLU,
    "Tanh": nn.Tanh,
    "Sigmoid": nn.Sigmoid,
    "Selu": nn.SELU,
    "Softplus": nn.Softplus,
    "HardSwish": nn.Hardswish,
    "Flatten": nn.Flatten,
    "Reshape": nn.Flatten,
    "Squeeze": nn.Flatten,
    "Dropout": nn.Identity,
    "Identity": nn.Identity,
}
#: operations with attributes
ADJUSTED: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    "LeakyRelu": lambda a: nn.LeakyReLU(a.get("alpha", 0.01)),
    "Elu": lambda a: nn.ELU(a.get("alpha", 1.0)),
    "Gelu": lambda a: nn.GELU("tanh" if a.get("approximate") == b"tanh" else "none"),
    "Softmax": lambda a: nn.Softmax(a.get("axis", -1)),
    "LogSoftmax": lambda a: nn.LogSoftmax(a.get("axis", -1)),
    "GlobalAveragePool": lambda _: nn.AdaptiveAvgPool2d(1),
}


def from_graph(path: Path) -> tuple[nn.Module, str, list[str]]:
    """(module, its layers in words, which tensor is which) of an ONNX file whose layers form one
    chain; ReconError for others, for operations that are not known here, and where the package onnx
    is not installed.
    """
    graph, held = _graph_of(path)
    named = dict(held)
    current = next((entry.name for entry in graph.input if entry.name not in held), "")
    layers: list[nn.Module] = []
    mapping: list[str] = []
    for node in graph.node:
        attributes = {entry.name: _value(entry) for entry in node.attribute}
        if node.op_type == "Constant":
            named[node.output[0]] = torch.as_tensor(attributes.get("value", 0))
            continue
        inputs = [name for name in node.input if name and name not in named]
        if node.op_type == "Identity" and not inputs:
            named[node.output[0]] = named[node.input[0]]
            continue
        if inputs != [current]:
            what = f"{node.op_type} is given {', '.join(inputs) or 'no image'}"
            raise ReconError(f"the layers of {path} are no chain ({what}): {PASS}")
        tensors = [named[name] for name in node.input if name in named]
        mapping += [
            f"{len(layers)} = {name}"
            for name in node.input
            if name in held and held[name].dim() > 1
        ]
        if node.op_type == "Add" and layers and _takes_bias(layers[-1], tensors):
            layers[-1].bias = nn.Parameter(tensors[0].float().flatten())
        else:
            layers.append(_layer(node.op_type, attributes, tensors, path))
        current = node.output[0]
    if not any(isinstance(layer, nn.Linear | nn.Conv2d) for layer in layers):
        raise ReconError(f"{path} has no weights of layers in it")
    if isinstance(layers[0], nn.Linear):
        layers.insert(0, nn.Flatten())
    return (
        nn.Sequential(*layers).eval(),
        ", ".join(type(layer).__name__ for layer in layers),
        mapping,
    )


def _graph_of(path: Path) -> tuple[Any, State]:
    """(graph of an ONNX file, its initialisers by name, also those that lie in a second file beside
    it).
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        mend = "the package onnx is not installed: pip install onnx, or save the state_dict()"
        raise ReconError(f"{path} is an ONNX file, and {mend}") from error
    with one_reason(f"{path} is no ONNX file, or its weights in a second file are not beside it"):
        graph = onnx.load(str(path)).graph  # what points out of the folder, onnx refuses
        return graph, {
            tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
            for tensor in graph.initializer
        }


def _value(attribute: Any) -> Any:
    from onnx import helper, numpy_helper

    value = helper.get_attribute_value(attribute)
    return (
        torch.from_numpy(numpy_helper.to_array(value).copy())
        if attribute.name == "value"
        else value
    )


def _takes_bias(layer: nn.Module, tensors: list[Tensor]) -> bool:
    return (
        isinstance(layer, nn.Linear)
        and layer.bias is None
        and len(tensors) == 1
        and tensors[0].numel() == len(layer.weight)
    )


def _layer(kind: str, a: dict[str, Any], tensors: list[Tensor], path: Path) -> nn.Module:
    if kind in PLAIN:
        return PLAIN[kind]()
    if kind in ADJUSTED:
        return ADJUSTED[kind](a)
    if kind == "Gemm" and a.get("alpha", 1) == a.get("beta", 1) == 1 and not a.get("transA"):
        return _linear(tensors[0] if a.get("transB") else tensors[0].mT, tensors[1:])
    if kind == "MatMul" and len(tensors) == 1 and tensors[0].dim() == 2:
        return _linear(tensors[0].mT, [])
    pooling = (
        kind in ("MaxPool", "AveragePool")
        and len(a["kernel_shape"]) == 2
        and not a.get("ceil_mode")
    )
    if pooling or (kind == "Conv" and tensors[0].dim() == 4):
        pads = list(a.get("pads", (0, 0, 0, 0)))
        if a.get("auto_pad", b"NOTSET") != b"NOTSET" or pads[:2] != pads[2:]:
            raise ReconError(f"{path} pads images unevenly: {PASS}")
        stride, padding = tuple(a.get("strides", (1, 1))), tuple(pads[:2])
        if kind == "MaxPool":
            return nn.MaxPool2d(tuple(a["kernel_shape"]), stride, padding)
        if pooling:
            whole = bool(a.get("count_include_pad", 0))
            return nn.AvgPool2d(tuple(a["kernel_shape"]), stride, padding, count_include_pad=whole)
        (rows, columns, *size), groups = tensors[0].shape, a.get("group", 1)
        how = (tuple(size), stride, padding, tuple(a.get("dilations", (1, 1))), groups)
        return _fill(
            nn.utils.skip_init(nn.Conv2d, columns * groups, rows, *how, bias=len(tensors) > 1),
            tensors,
        )
    if kind == "BatchNormalization" and len(tensors) == 4:
        norm = _AnyNorm(len(tensors[0]), eps=a.get("epsilon", 1e-5))
        names = ("weight", "bias", "running_mean", "running_var")
        norm.load_state_dict(dict(zip(names, tensors, strict=True)), strict=False)
        return norm
    raise ReconError(f"{path} has an operation that is not read here ({kind}): {PASS}")


def _linear(weight: Tensor, bias: list[Tensor]) -> nn.Module:
    layer = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], bias=bool(bias))
    return _fill(layer, [weight, *bias])


def _fill(layer: nn.Module, tensors: list[Tensor]) -> nn.Module:
    for parameter, value in zip(layer.parameters(), tensors, strict=True):
        parameter.data.copy_(value.view_as(parameter))
    return layer


class _AnyNorm(nn.BatchNorm1d):
    """Batch norm of vectors (n, C) and of images (n, C, H, W): PyTorch's own asks which."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Any."""
