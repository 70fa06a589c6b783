"""Results on disk: `result.json` + `arrays.safetensors`, written atomically and found again by key.

Every file holds a checksum of what it says, so that no flipped bit is taken for a number.

The key covers everything a result depends on: experiment, profile's config, seed, device kind, data checksum and a
hash of the code that computes it (`recon.store.keys`).  Editing a docstring, a figure or another chapter changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import get_origin, get_type_hints

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recon import __version__
from recon.errors import ReconError
from recon.store.files import atomic_path

FILES = ("result.json", "arrays.safetensors")
VERDICTS = ("reproduced", "partly", "not reproduced", "finding")


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper (or a finding of ours), with what we measured.

    id: short name · section: where in the paper, "" for our own findings · sentence: the claim · paper, ours, null:
    values as text (empty where there is none) · verdict: one of `VERDICTS`.
    """

    id: str
    section: str
    sentence: str
    paper: str
    ours: str
    null: str
    verdict: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {VERDICTS}, not {self.verdict}")


@dataclass(frozen=True)
class Outcome:
    """What an experiment computes: metrics (JSON-able), claims, arrays (tensors)."""

    metrics: dict
    claims: list[Claim]
    arrays: dict[str, Tensor]


@dataclass(frozen=True)
class Result:
    """An `Outcome` with its provenance; what `result.json` holds, field by field (arrays apart)."""

    experiment: str
    profile: str
    data: dict
    seed: int
    device: str
    versions: dict
    commit: str
    seconds: float
    metrics: dict
    claims: list[Claim]
    key: str
    config: dict
    arrays: dict[str, Tensor] = field(repr=False)
    peak_memory_mb: float = 0.0

    def array(self, name: str) -> Tensor:
        """One array by name; KeyError lists what there is."""
        if name not in self.arrays:
            raise KeyError(f"{self.experiment} has no array '{name}', only {', '.join(sorted(self.arrays))}")
        return self.arrays[name]


def verdict(holds: bool) -> str:
    """ "reproduced" or "not reproduced"."""
    return "reproduced" if holds else "not reproduced"


def result_key(experiment: str, config: object, seed: int, device: str, data_sha256: str, code: str) -> str:
    """Hash of all that a result depends on; code: `recon.store.keys.source_hash` of the experiment's module."""
    parts = [experiment, asdict(config), seed, device.split(":")[0], data_sha256, code]  # type: ignore[call-overload]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def versions() -> dict:
    """Versions that may matter to a number."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "recon": __version__,
    }


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Atomically write tensors as safetensors, with their checksum; ReconError where that is impossible."""
    with atomic_path(path) as temporary:
        _write_tensors(tensors, temporary)


def _write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    tensors = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    try:
        safetensors.torch.save_file(tensors, path, metadata={"sha256": _checksum(tensors)})
    except safetensors.SafetensorError as error:  # its own name for a full disk
        raise OSError(str(error)) from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors; ReconError for a damaged file.

    Cloned, since in the file tensors lie where they may and sums over unaligned memory round differently: a resumed
    run would differ from an uninterrupted one in the last digits.
    """
    try:
        _check_is_file(path)
        with safetensors.safe_open(path, "pt") as file:  # opened once: another process may replace it any moment
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (no mapping)
    except (safetensors.SafetensorError, OSError, ValueError, MemoryError) as error:
        raise ReconError(f"{path} is damaged or is not a safetensors file: {error}") from error
    if metadata is not None and metadata.get("sha256") != _checksum(tensors):  # older files have no metadata
        raise ReconError(f"{path} is damaged: its checksum is not that of its tensors")
    return tensors


def _checksum(tensors: dict[str, Tensor]) -> str:
    """Of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_result(result: Result, folder: Path) -> Path:
    """Write both files, then put both in place: arrays first, `result.json` last, with the checksum of its arrays.

    So a full disk costs no older result, and a result that can be read is complete, also after a kill between the two.
    ReconError where it cannot be written.
    """
    meta = {k: v for k, v in vars(result).items() if k not in ("arrays", "claims")}
    meta["claims"] = [asdict(claim) for claim in result.claims]
    with atomic_path(folder / "result.json") as text, atomic_path(folder / "arrays.safetensors") as arrays:
        _write_tensors(result.arrays, arrays)
        meta["arrays_sha256"] = _sha256(arrays)
        meta["sha256"] = _checksum_of_text(json.loads(json.dumps(meta, sort_keys=True)))
        text.write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return folder


def replace_claims(folder: Path, claims: list[Claim]) -> None:
    """Write other claims into a stored result, everything else as it is."""
    meta = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    meta["claims"] = [asdict(claim) for claim in claims]
    meta.pop("sha256", None)
    meta["sha256"] = _checksum_of_text(meta)
    with atomic_path(folder / "result.json") as text:
        text.write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_of_text(meta: dict) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _check_is_file(path: Path) -> None:
    """OSError otherwise: a pipe would be waited for without end."""
    if not path.is_file():
        raise OSError("it is not a file" if os.path.lexists(path) else "it is missing")


def load_result(folder: Path, arrays: bool = True) -> Result:
    """Read a result; ReconError where it is missing or damaged.  The published edition keeps no arrays."""
    path = folder / "result.json"
    if not os.path.lexists(path):
        raise ReconError(f"there is no result in {folder}")
    try:
        _check_is_file(path)
        meta = json.loads(path.read_text(encoding="utf-8"))
        checksum = meta.pop("sha256", None)
        if checksum is not None and checksum != _checksum_of_text(meta):  # older results have none
            raise ValueError("its checksum is not that of its contents")
        meta["claims"] = [Claim(**claim) for claim in meta["claims"]]
        expected = meta.pop("arrays_sha256", None)
        result = Result(**meta, arrays={})
        _check_types(result)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError) as error:
        raise ReconError(f"{path} is damaged: {error or type(error).__name__}") from error
    if not arrays:
        return result
    tensors = load_tensors(folder / "arrays.safetensors")
    if expected is not None and _sha256(folder / "arrays.safetensors") != expected:
        raise ReconError(f"{folder / 'arrays.safetensors'} is damaged or belongs to another run than result.json")
    return replace(result, arrays=tensors)


def _check_types(result: Result) -> None:
    """TypeError if a field, or what every reader takes from it, is not what its annotation says."""
    kinds = {name: get_origin(hint) or hint for name, hint in get_type_hints(Result).items()}
    values = {**vars(result), **{f"data['{name}']": result.data.get(name) for name in ("name", "notice")}}
    values |= {f"claim {c.id!s:.30}'s {name}": value for c in result.claims for name, value in vars(c).items()}
    for name, value in values.items():
        kind = kinds.get(name, str)
        if not isinstance(value, (int, float) if kind is float else kind):
            raise TypeError(f"{name} is of type {type(value).__name__}, not {kind.__name__}")


def kept(experiment: str) -> tuple[Result, Path] | None:
    """The result at the paper's size that `recon keep` put into the book, and its folder; None if there is none."""
    folder = Path(__file__).resolve().parents[2] / "book" / "paper-size" / experiment
    return (load_result(folder, arrays=False), folder) if (folder / "result.json").is_file() else None


def find_result(folder: Path, key: str) -> Result | None:
    """The result in `folder` if it is readable and has this key, else None: it will be computed again."""
    try:
        result = load_result(folder)
    except ReconError:
        return None
    return result if result.key == key else None


def checkpoint_folder(folder: Path, key: str) -> Path:
    """Where an unfinished run of this key keeps its checkpoints; those of other keys are removed."""
    for other in folder.glob("checkpoint-*"):
        if other.name != f"checkpoint-{key}":
            shutil.rmtree(other, ignore_errors=True)
    return folder / f"checkpoint-{key}"
