"""Files of weights: safetensors and PyTorch's own as named tensors. Nothing in them is executed."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from recon.errors import ReconError, one_reason

#: name -> tensor
State = dict[str, Tensor]

TORCH = {".pt", ".pth", ".ckpt", ".bin"}
INDEX = ".index.json"  # names the file of each tensor, where there are several
SHARD = re.compile(r"-[0-9]+-of-[0-9]+\.")
#: what lies beside the weights in a checkpoint, or in its folder
BESIDE = re.compile(r"optim|sched|scaler|rng|training_args|callback|hyper", re.IGNORECASE)
#: how files begin that are none of weights
OTHERS = {
    rb"\s*<(!doctype|html|\?xml)": "is a page of the web, perhaps of a failed download",
    rb"\s*\{\s*\"": "is text, perhaps of a failed download",
    rb"version https://git-lfs": "is a pointer of Git LFS, and not the file (git lfs pull)",
}
SAVE = "save the state_dict() of the model instead"
RUNS = "and a stranger's could run any program"
PASS = "pass the module itself to recon.audit in Python"


def digest(*parts: bytes) -> str:
    """SHA-256 of all of them."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


def load_state(path: Path) -> State:
    """Name -> tensor, on the CPU.

    `.pt`, `.pth`, `.ckpt`, `.bin` are read with `weights_only=True`, everything else as
    safetensors. ReconError for a missing or damaged file, for TorchScript, ONNX and a whole pickled
    module, for one of several files of a network, and for several networks in a file.
    """
    if not path.is_file():
        raise ReconError(f"there is no weights file {path}: name a file, and no folder")
    with one_reason(f"{path} cannot be read"):
        beside = [index.read_text("utf-8", "replace") for index in path.parent.glob(f"*{INDEX}")]
        data = path.read_bytes()
    if (
        SHARD.search(path.name)
        or path.name.endswith(INDEX)
        or any(f'"{path.name}"' in index for index in beside)
    ):
        raise ReconError(f"{path} is of a network in several files: save it as one, or {PASS}")
    others = [words for how, words in OTHERS.items() if re.match(how, data, re.IGNORECASE)]
    if path.suffix.lower() == ".onnx":
        others = [f"is an ONNX file, which is not read: {PASS}, or {SAVE}"]
    if others:
        raise ReconError(f"{path} {others[0]}")
    if path.suffix.lower() in TORCH or zipfile.is_zipfile(path):
        return _from_torch(path)
    with one_reason(
        f"{path} is damaged or is not a safetensors file (PyTorch's own must be called .pt or .pth)"
    ):
        # from bytes: its own reader takes no name that is not UTF-8; cloned: they are unaligned
        held = safetensors.torch.load(data)
        return {name: held[name].clone() for name in sorted(held, key=_natural)}


def _natural(name: str) -> list[Any]:
    """Sorts layer.10 after layer.9; text and numbers alternate, so that like is compared with
    like.
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _from_torch(path: Path) -> State:
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a stranger's bytes make the reader say
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        sentence = f"is damaged or is no file of torch.save: {reason}"
        if re.search("TorchScript|Weights only load failed|Unsupported", str(error)):
            sentence = f"holds more than tensors, a TorchScript archive or objects, {RUNS}: {SAVE}"
        raise ReconError(f"{path} {sentence}") from error
    states = dict(_states_in(held))
    if not states:
        names = f" with {', '.join(map(str, list(held)[:6]))}" if isinstance(held, dict) else ""
        raise ReconError(f"{path} holds no state dict, but a {type(held).__name__}{names}")
    if len(states) > 1:
        raise ReconError(
            f"{path} holds several networks ({', '.join(states)}): save the one that is meant alone"
        )
    return states.popitem()[1]


def _states_in(held: Any, place: str = "") -> Iterator[tuple[str, State]]:
    """(where, state dict) of those that a checkpoint holds, but for what belongs to training."""
    if isinstance(held, Mapping):
        state = {str(name): value for name, value in held.items() if isinstance(value, Tensor)}
        if any(value.dim() > 1 for value in state.values()):
            yield place, state
        for name, inner in held.items():
            if not BESIDE.search(str(name)):
                yield from _states_in(inner, f"{place}.{name}".strip("."))
