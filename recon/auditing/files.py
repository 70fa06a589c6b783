"""Files of weights as named tensors: safetensors, PyTorch's own, ONNX.  Nothing in them is ever executed."""

from __future__ import annotations

import argparse
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from recon.errors import ReconError
from recon.store.tensors import load_tensors

TORCH = {".pt", ".pth", ".ckpt", ".bin"}
HOLDERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "weights", "module")
MAX_HEADER = 100_000_000
#: what training scripts keep beside the weights: numbers of NumPy and the namespace of their arguments, plain data
_SCALAR = np.float64(0).__reduce__()[0]  # NumPy's own reader of a pickled number
SCALARS: list[Any] = [
    np.dtype,
    (_SCALAR, "numpy.core.multiarray.scalar"),
    (_SCALAR, "numpy._core.multiarray.scalar"),
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")),
    argparse.Namespace,
]


def load_state(path: Path) -> dict[str, Tensor]:
    """Name -> tensor of a file, on the CPU.

    `.pt`, `.pth`, `.ckpt`, `.bin`: a state dict, or a checkpoint that holds one under a name of `HOLDERS`, read with
    `weights_only=True` · `.onnx`: the initialisers, where the package onnx is installed · everything else: safetensors
    with any metadata.  ReconError for a missing or damaged file, for TorchScript, and for a whole pickled module.
    """
    if not path.is_file():
        raise ReconError(f"there is no weights file {path}")
    if path.suffix.lower() == ".onnx":
        return _from_onnx(path)
    if path.suffix.lower() in TORCH or (zipfile.is_zipfile(path) and not _is_safetensors(path)):
        return _from_torch(path)
    return _from_safetensors(path)


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(9)
    return len(head) == 9 and struct.unpack("<Q", head[:8])[0] < MAX_HEADER and head[8:] == b"{"


def _from_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        if not str(path).isprintable():  # its reader takes no name that is not UTF-8
            return {name: tensor.clone() for name, tensor in safetensors.torch.load(path.read_bytes()).items()}
        with safetensors.safe_open(path, "pt") as file:
            if "sha256" in (file.metadata() or {}):  # one of this package's own: its checksum counts
                return load_tensors(path)
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (no mapping)
    except (safetensors.SafetensorError, OSError, ValueError, MemoryError) as error:
        hint = "" if _is_safetensors(path) else "; PyTorch's own files must be called .pt or .pth"
        raise ReconError(f"{path} is damaged or is not a safetensors file: {error}{hint}") from error


def _from_torch(path: Path) -> dict[str, Tensor]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(name.endswith("constants.pkl") or "/code/" in name for name in archive.namelist()):
                raise ReconError(
                    f"{path} is a TorchScript archive, which is a program and not only weights: save the state_dict() "
                    "of the model instead"
                )
    try:
        with torch.serialization.safe_globals(SCALARS):
            held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a stranger's bytes make the reader say
        reason = " ".join(str(error).split())
        if "Weights only load failed" in reason or "Unsupported" in reason:
            raise ReconError(
                f"{path} holds more than tensors, and unpickling a stranger's file could run any program: save the "
                "state_dict() of the model instead"
            ) from error
        raise ReconError(
            f"{path} is damaged or is no file of torch.save: {reason[:120] or type(error).__name__}"
        ) from error
    found = _state_in(held)
    if not found:
        what = f"a {type(held).__name__}" + (f" with {', '.join(map(str, list(held)[:6]))}" if _is_dict(held) else "")
        raise ReconError(f"{path} holds no state dict, but {what}")
    return found


def _is_dict(held: Any) -> bool:
    return isinstance(held, dict)


def _state_in(held: Any) -> dict[str, Tensor]:
    """The tensors of a state dict, or of the first of `HOLDERS` that holds one; the deepest prefix stays."""
    if not _is_dict(held):
        return {}
    tensors = {str(name): value for name, value in held.items() if isinstance(value, Tensor)}
    for name in HOLDERS:
        if name in held and _is_dict(held[name]) and (inner := _state_in(held[name])):
            return inner
    return tensors


def _from_onnx(path: Path) -> dict[str, Tensor]:
    graph, held = graph_of(path)
    held = {name: value for name, value in held.items() if value.is_floating_point()}  # others are shapes
    if not held:
        raise ReconError(f"{path} has no weights in it")
    turned = {name for node in graph.node if _multiplies_from_the_right(node) for name in node.input[1:2]}
    return {name: value.mT.contiguous() if name in turned else value for name, value in held.items()}


def graph_of(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """(graph of an ONNX file, its initialisers by name, also those that lie in a second file beside it)."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise ReconError(
            f"{path} is an ONNX file, and the package onnx is not installed: pip install onnx, or save the state_dict()"
        ) from error
    try:
        graph = onnx.load(str(path), load_external_data=False).graph
        for each in graph.initializer:
            if each.data_location == onnx.TensorProto.EXTERNAL:
                _bring(each, path)
        return graph, {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in graph.initializer}
    except ReconError:
        raise
    except Exception as error:  # whatever a stranger's bytes make the reader say
        raise ReconError(f"{path} is damaged or is no ONNX file: {' '.join(str(error).split())[:120]}") from error


def _bring(tensor: Any, path: Path) -> None:
    """The numbers of a tensor that lie in a second file beside the first, as today's exporter writes them; ReconError
    for a file elsewhere, or one that is not there."""
    from onnx.external_data_helper import load_external_data_for_tensor

    where = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    if not where or Path(where).name != where or not (path.parent / where).is_file():
        raise ReconError(f"{path} keeps {tensor.name} in another file, {where!r}, which is not beside it")
    load_external_data_for_tensor(tensor, str(path.parent))


def _multiplies_from_the_right(node: Any) -> bool:
    """Whether it computes x W and not x Wᵀ, as PyTorch does, for its second input W (in, out)."""
    return node.op_type == "MatMul" or (
        node.op_type == "Gemm" and not any(each.name == "transB" and each.i for each in node.attribute)
    )
