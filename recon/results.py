"""Results on disk: `result.json` + `arrays.safetensors`, written atomically and found again by key.

The key covers everything a result depends on: experiment, profile's config, seed, device kind, data checksum and a
hash of the code that computes it (`recon.sources`).  Editing a docstring, a figure or another chapter changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recon import __version__
from recon.errors import ReconError

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
    """Hash of all that a result depends on; code: `recon.sources.source_hash` of the experiment's module."""
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


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Write to the path given by `with`; it replaces `path` only if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)  # mkstemp's 0600 is for secrets
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Atomically write tensors as safetensors."""
    with atomic_path(path) as temporary:
        safetensors.torch.save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, temporary)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors; ReconError for a damaged file.

    Cloned, since in the file tensors lie where they may and sums over unaligned memory round differently: a resumed
    run would differ from an uninterrupted one in the last digits.
    """
    try:
        return {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ReconError(f"{path} is damaged or is not a safetensors file: {error}") from error


def save_result(result: Result, folder: Path) -> Path:
    """Write arrays first and `result.json` last, with the checksum of the arrays that belong to it.

    So a result that can be read is complete, also after a kill between the two.  ReconError where it cannot be written.
    """
    meta = {k: v for k, v in vars(result).items() if k not in ("arrays", "claims")}
    meta["claims"] = [asdict(claim) for claim in result.claims]
    try:
        save_tensors(result.arrays, folder / "arrays.safetensors")
        meta["arrays_sha256"] = _sha256(folder / "arrays.safetensors")
        with atomic_path(folder / "result.json") as temporary:
            temporary.write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise ReconError(f"results cannot be written to {folder}: {error.strerror or error}") from error
    return folder


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_result(folder: Path, arrays: bool = True) -> Result:
    """Read a result; ReconError where it is missing or damaged.  The published edition keeps no arrays."""
    try:
        meta = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        meta["claims"] = [Claim(**claim) for claim in meta["claims"]]
        expected = meta.pop("arrays_sha256", None)
        result = Result(**meta, arrays={})
    except FileNotFoundError as error:
        raise ReconError(f"there is no result in {folder}") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReconError(f"{folder / 'result.json'} is damaged: {error}") from error
    if not arrays:
        return result
    tensors = load_tensors(folder / "arrays.safetensors")
    if expected is not None and _sha256(folder / "arrays.safetensors") != expected:
        raise ReconError(f"{folder / 'arrays.safetensors'} is damaged or belongs to another run than result.json")
    return replace(result, arrays=tensors)


def kept(experiment: str) -> tuple[Result, Path] | None:
    """The result at the paper's size that `recon keep` put into the book, and its folder; None if there is none."""
    folder = Path(__file__).resolve().parents[1] / "book" / "paper-size" / experiment
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
