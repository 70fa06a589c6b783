"""Results on disk: `result.json` + `arrays.safetensors`, written atomically, found again by key."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import TypeAdapter

from companion.store.record import Record, record
from recon.errors import ReconError, one_reason
from recon.store.files import atomic_path

if TYPE_CHECKING:  # what only prints results loads no torch
    from torch import Tensor

FILES = ("result.json", "arrays.safetensors")
#: beginnings of the names of arrays: what figures show, and how descents began
FIGURE = "figure."
TRACE = "trace."
#: in the order of a reader's interest; "mixed" is said of a claim whose image sets differ, "check"
#: of an identity: see `companion.chapters.catalogue`
VERDICTS = (
    "reproduced",
    "partly",
    "depends on stopping",
    "not reproduced",
    "mixed",
    "undecided",
    "finding",
    "check",
)

M = TypeVar("M", bound=Record)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper (or a finding of ours), with what we measured.

    Attributes:
        id: short name.
        section: where in the paper, "" for our own findings.
        sentence: the claim.
        paper, ours, null: values as text (empty where there is none).
        verdict: one of `VERDICTS`.
        value, null_value: the number that the verdict's rule looks at, and the same number of the
            null; None where there is no single one.
        margin: how far that number is from where the verdict turns, positive on the side of
            "reproduced"; None where no single number decides.
    """

    id: str
    _: KW_ONLY
    sentence: str
    ours: str
    verdict: str
    section: str = ""
    paper: str = ""
    null: str = ""
    value: float | None = None
    null_value: float | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {VERDICTS}, not {self.verdict}")


def verdict(holds: bool) -> str:
    """ "reproduced" or "not reproduced"."""
    return "reproduced" if holds else "not reproduced"


def graded(*holds: bool, best: str = "finding") -> str:
    """`best` if all hold, "partly" if any does, else "not reproduced"."""
    return best if all(holds) else "partly" if any(holds) else "not reproduced"


def orders_below(value: float, limit: float) -> float:
    """By how many orders of magnitude a value is below its limit, negative above it; at most 99.

    >>> orders_below(1e-5, 1e-2), orders_below(0.0, 1.0), round(orders_below(20.0, 2.0), 9)
    (3.0, 99.0, -1.0)
    """
    return min(99.0, math.log10(limit / value)) if value > 0 and limit > 0 else 99.0


@dataclass(frozen=True)
class Data:
    """Images of a result: name and checksum of their pool, n trained on, a sentence where they
    stand in for others.
    """

    name: str
    sha256: str
    n: int = 0
    notice: str = ""


@dataclass(frozen=True)
class Provenance:
    """How a result came about.

    Attributes:
        device: in words.
        seconds: wall time, of an interrupted run that of its last part.
        key: see `result_key`.
        config: the sizes it was run at.
        overrides: those of them that were set by hand.
    """

    __pydantic_config__ = {"extra": "forbid"}
    experiment: str
    profile: str
    data: Data
    seed: int
    device: str
    versions: dict[str, str]
    commit: str
    seconds: float
    key: str
    config: dict[str, Any]
    claims: list[Claim]
    overrides: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result(Generic[M]):
    """What an experiment gives: its metrics (a record of its own type), arrays by name, and where
    from.

    Attributes:
        kept: whether the book keeps it, with the arrays of its figures alone.
    """

    metrics: M
    arrays: dict[str, Tensor] = field(repr=False)
    made: Provenance
    kept: bool = False

    @property
    def label(self) -> str:
        """What a figure says of the run it shows: which, on what, and of a kept one by which
        commit.
        """
        made = self.made
        pool = {"cifar10": "CIFAR-10", "photos": "bundled photographs"}.get(
            made.data.name, made.data.name
        )
        counts = image_counts(made.config) or {made.data.n}
        n = " to ".join(map(str, sorted({min(counts), max(counts)})))
        size = f" n = {n}," if n != "0" else ""
        run = f"profile {made.profile}, {pool},{size} seed {made.seed}"
        return f"kept run: {run}, commit {made.commit}" if self.kept else f"this run: {run}"

    @property
    def claims(self) -> list[Claim]:
        """The sentences that these metrics were held against."""
        return self.made.claims

    def array(self, name: str) -> Tensor:
        """One array by name."""
        return self.arrays[name]

    def figure(self, name: str) -> Tensor:
        """An array that a figure shows, which a kept result has too; see
        `companion.chapters.base.Experiment`.
        """
        return self.array(FIGURE + name)


def traces(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The rows of a trace among arrays, by their own names."""
    return {
        name.removeprefix(TRACE): rows for name, rows in arrays.items() if name.startswith(TRACE)
    }


def image_counts(config: Any) -> set[int]:
    """Every number of training images in an experiment's sizes.

    >>> sorted(image_counts({"n_train": 5, "cells": [{"n": 6}, {"n": 9}], "more_n": 7, "ns": [20, 30]}))
    [5, 6, 7, 9, 20, 30]
    """  # noqa: E501
    numbers = re.findall(r'"(?:n_train|more_n|n|ns)": \[?([\d, ]+)', json.dumps(config))
    return {int(n) for n in " ".join(numbers).replace(",", " ").split()}


def save_result(result: Result[Any], folder: Path) -> Path:
    """Write both files, then put arrays in place, then `result.json` with their checksum: a full
    disk costs no older result, a kill leaves none that is mixed. ReconError where it cannot be
    written.
    """
    from recon.store.tensors import write_tensors

    with (
        atomic_path(folder / "result.json") as text,
        atomic_path(folder / "arrays.safetensors") as arrays,
    ):
        write_tensors(result.arrays, arrays)
        text.write_text(as_json(result, _sha256(arrays)), encoding="utf-8")
    return folder


def as_json(result: Result[Any], arrays_sha256: str | None = None) -> str:
    """The text of `result.json`."""
    metrics = record(result.metrics)
    meta = {**asdict(result.made), "metrics": metrics}
    meta |= {} if arrays_sha256 is None else {"arrays_sha256": arrays_sha256}
    return json.dumps(meta, indent=1, sort_keys=True) + "\n"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """`result.json` as it is; ReconError where it is missing or damaged."""
    if not os.path.lexists(path):
        raise ReconError(f"there is no result in {path.parent}")
    with one_reason(f"{path} is damaged"):
        if not path.is_file():  # a pipe would be waited for without end
            raise ValueError("it is not a file")
        meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(meta, dict) or not isinstance(meta.get("metrics"), dict):
            raise ValueError("it has no metrics")
    return meta


def load_result(folder: Path, metrics: type[M], arrays: bool = True) -> Result[M]:
    """Read a result with metrics of this type; ReconError where it is missing or damaged, or says
    something else.
    """
    path = folder / "result.json"
    meta = read_json(path)
    expected = meta.pop("arrays_sha256", None)
    found = metrics(record(meta.pop("metrics")))
    with one_reason(f"{path} is damaged"):  # strict, as JSON: its lists are our tuples
        made = adapter(Provenance).validate_json(json.dumps(meta), strict=True)
    result = Result(found, {}, made)
    if not arrays:
        return result
    from recon.store.tensors import load_tensors

    tensors = load_tensors(folder / "arrays.safetensors")
    if expected is not None and _sha256(folder / "arrays.safetensors") != expected:
        raise ReconError(
            f"{folder / 'arrays.safetensors'} is damaged or belongs to another run than result.json"
        )
    return replace(result, arrays=tensors)


def result_key(
    experiment: str,
    version: int,
    sizes: Any,
    seed: int,
    device: str,
    data_sha256: str,
) -> str:
    """Hash of all that a result depends on, 16 digits.

    Args:
        version: of the experiment, see `companion.chapters.base.Experiment`.
        device: the kind that computes.
    """
    parts = [experiment, version, asdict(sizes), seed, device.split(":")[0], data_sha256]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """pydantic's reader and writer of a type, kept: it takes longer to make than to use."""
    return TypeAdapter(kind)


def find_result(folder: Path, key: str, metrics: type[M]) -> Result[M] | None:
    """The result in `folder` if it is readable and has this key, else None: it will be computed
    again.
    """
    with suppress(ReconError):
        if (result := load_result(folder, metrics)).made.key == key:
            return result
    return None


def commit(root: Path) -> str:
    """Short hash of HEAD, "-dirty" with uncommitted changes in recon/, companion/ or notebooks/;
    "unknown" without a commit.
    """
    places = ("--", "recon", "companion", "notebooks")
    head = _git(root, "rev-parse", "--short", "HEAD")
    dirty = head and _git(root, "status", "--porcelain", *places)
    return f"{head}-dirty" if dirty else head or "unknown"


def _git(root: Path, *arguments: str) -> str:
    """What it prints; nothing where it fails."""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.check_output(
            ["git", *arguments],
            cwd=root,
            text=True,
            timeout=30,
            stderr=subprocess.DEVNULL,
        ).strip()
    return ""
