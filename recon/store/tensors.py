"""Tensors on disk: safetensors with a checksum of what they say, written atomically; no pickle."""

import hashlib
from contextlib import suppress
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recon.errors import ReconError, one_reason
from recon.store.files import atomic_path


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Atomically write tensors as safetensors, with their checksum; ReconError where that is
    impossible.
    """
    with atomic_path(path) as temporary:
        write_tensors(tensors, temporary)


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """As `save_tensors` does, straight to this path; OSError."""
    tensors = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    try:
        safetensors.torch.save_file(tensors, path, metadata={"sha256": _checksum(tensors)})
    except safetensors.SafetensorError as error:  # its own name for a full disk
        raise OSError(str(error)) from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors; ReconError for a damaged file."""
    with one_reason(f"{path} is damaged or is not a safetensors file"):
        if not path.is_file():  # a pipe would be waited for without end
            raise OSError("it is missing, or is not a file")
        # cloned: sums over the file's unaligned memory round differently, and so would a resumed
        # run
        # opened once: another process may replace it any moment
        with safetensors.safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (no mapping)
    # older files have no metadata
    if metadata is not None and metadata.get("sha256") != _checksum(tensors):
        raise ReconError(f"{path} is damaged: its checksum is not that of its tensors")
    return tensors


def find_tensors(path: Path) -> dict[str, Tensor] | None:
    """What is in a file; None if there is none, or none that can be read: it will be computed
    again.
    """
    with suppress(ReconError):
        return load_tensors(path)
    return None


def _checksum(tensors: dict[str, Tensor]) -> str:
    """Of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
