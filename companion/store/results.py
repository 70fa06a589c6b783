"""Results on disk: `result.json` + `arrays.safetensors`, written atomically and found again by key.

Each holds a checksum of what it says.
"""

import hashlib
import json
import math
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from PIL import Image
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from companion.store.record import Record, record
from recon.errors import ReconError
from recon.store.files import atomic_path
from recon.store.tensors import check_is_file, load_tensors, save_tensors, write_tensors

FILES = ("result.json", "arrays.safetensors")
RECONSTRUCTIONS, LEVELS = "x_hat.safetensors", 255
#: arrays that a kept run holds: what its figures show (images as 8 bits), and how its descents
#: began
FIGURE, TRACE = "figure.", "trace."
KEPT, TO_KEEP = "kept.safetensors", (FIGURE, TRACE)
#: in the order of a reader's interest; "mixed" is said of a claim whose image sets differ, "check"
#: of an identity: see `companion.chapters.catalogue`
VERDICTS = (
    "reproduced",
    "partly",
    "depends on stopping",
    "contradicted by another attack",
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


def orders_below(value: float, limit: float) -> float:
    """By how many orders of magnitude a value is below its limit, negative above it; at most 99.

    >>> orders_below(1e-5, 1e-2), orders_below(0.0, 1.0), round(orders_below(20.0, 2.0), 9)
    (3.0, 99.0, -1.0)
    """
    return min(99.0, math.log10(limit / value)) if value > 0 and limit > 0 else 99.0


def by_another_attack(claim: Claim) -> Claim:
    """A paper's sentence held against an attack that is not the paper's: if it fails there, that
    attack contradicts it, and the paper's own still may reproduce.
    """
    failed = claim.verdict == "not reproduced"
    return replace(claim, verdict="contradicted by another attack") if failed else claim


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
        counts = sorted(image_counts(made.config) or {made.data.n})
        n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
        run = ", ".join(
            [f"profile {made.profile}", pool, *([n] if counts[-1] else []), f"seed {made.seed}"]
        )
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


def image_counts(config: Any) -> set[int]:
    """Every number of training images in an experiment's sizes.

    >>> sorted(image_counts({"n_train": 5, "cells": [{"n": 6}, {"n": 9}], "more_n": 7, "ns": [20, 30]}))
    [5, 6, 7, 9, 20, 30]
    """  # noqa: E501
    if isinstance(config, list | tuple):
        return set().union(*map(image_counts, config))
    if not isinstance(config, dict):
        return set()
    counts = {
        config[name] for name in ("n_train", "more_n", "n") if isinstance(config.get(name), int)
    }
    return counts.union(config.get("ns", ()), *map(image_counts, config.values()))


def save_result(result: Result[Any], folder: Path) -> Path:
    """Write both files, then put arrays in place, then `result.json` with their checksum: a full
    disk costs no older result, a kill leaves none that is mixed. ReconError where it cannot be
    written.
    """
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
    meta["sha256"] = _checksum_of_text(json.loads(json.dumps(meta, sort_keys=True)))
    return json.dumps(meta, indent=1, sort_keys=True) + "\n"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_of_text(meta: dict) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """`result.json` as it is, its checksum compared; ReconError where it is missing or damaged."""
    if not os.path.lexists(path):
        raise ReconError(f"there is no result in {path.parent}")
    try:
        check_is_file(path)
        meta = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(meta, dict) or not isinstance(meta.get("metrics"), dict):
            raise ValueError("it has no metrics")
        checksum = meta.pop("sha256", None)
        if checksum is not None and checksum != _checksum_of_text(meta):  # older results have none
            raise ValueError("its checksum is not that of its contents")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ReconError(f"{path} is damaged: {error or type(error).__name__}") from error
    return meta


def load_result(folder: Path, metrics: type[M], arrays: bool = True) -> Result[M]:
    """Read a result with metrics of this type; ReconError where it is missing or damaged, or says
    something else.
    """
    path = folder / "result.json"
    meta = read_json(path)
    expected = meta.pop("arrays_sha256", None)
    found = metrics(record(meta.pop("metrics")))
    if unknown := sorted(set(meta) - {each.name for each in fields(Provenance)}):
        raise ReconError(f"{path} is damaged: it has an unknown field {unknown[0]}")
    try:  # strict, as JSON: its lists are our tuples, its keys our whole numbers
        made = adapter(Provenance).validate_json(json.dumps(meta), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ReconError(
            f"{path} is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from error
    result = Result(found, {}, made)
    if not arrays:
        return result
    tensors = load_tensors(folder / "arrays.safetensors")
    if expected is not None and _sha256(folder / "arrays.safetensors") != expected:
        raise ReconError(
            f"{folder / 'arrays.safetensors'} is damaged or belongs to another run than result.json"
        )
    return replace(result, arrays=tensors)


def result_key(
    experiment: str, version: int, sizes: Any, seed: int, device: str, data_sha256: str
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


def keep_arrays(arrays: Mapping[str, Tensor], folder: Path) -> None:
    """Write the arrays whose names begin with one of `TO_KEEP` to `folder`: images as 8 bits, all
    else as it is.
    """
    chosen = {name: array for name, array in arrays.items() if name.startswith(TO_KEEP)}
    if chosen:
        save_tensors(chosen, folder / KEPT)


def kept_arrays(folder: Path) -> dict[str, Tensor]:
    """What `keep_arrays` wrote; nothing where there is nothing.  ReconError for a damaged file."""
    return load_tensors(folder / KEPT) if (folder / KEPT).is_file() else {}


def keep_reconstructions(arrays: Mapping[str, Tensor], folder: Path) -> Path | None:
    """Write x_hat (…, d) of a result, and which images it is of, to `folder`; None where there is
    no x_hat.

    In 8 bits a pixel, between its least and greatest value: NCC and SSIM of stretched images, by
    which it is scored, see the rounding alone, at most half of 1/255 of a reconstruction's range in
    every pixel. Square images in colour are packed without further loss, as one picture.
    """
    if "x_hat" not in arrays:
        return None
    x = arrays["x_hat"].float()
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    levels = ((x - low) / (high - low).clamp_min(1e-12) * LEVELS).round().to(torch.uint8)
    # rows of the data set that say what it was attacked for
    index = {name: arrays[name] for name in ("train_index", "heldout_index") if name in arrays}
    side = math.isqrt(x.shape[-1] // 3)
    what = (
        {"levels": levels}
        if 3 * side**2 != x.shape[-1]
        else {"webp": _packed(levels.reshape(-1, 3, side, side))}
    )
    save_tensors({**what, "low": low, "high": high, **index}, folder / RECONSTRUCTIONS)
    return folder / RECONSTRUCTIONS


def _packed(levels: Tensor) -> Tensor:
    """The bytes of one WebP picture, lossless, of all images (k, 3, s, s) uint8, in as many rows as
    columns.
    """
    across, packed = math.ceil(len(levels) ** 0.5), BytesIO()
    full = torch.cat([levels, levels.new_zeros(across**2 - len(levels), *levels.shape[1:])])
    sheet = full.unflatten(0, (across, across)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    Image.fromarray(sheet.numpy()).save(packed, "WEBP", lossless=True, quality=100, method=6)
    return torch.frombuffer(bytearray(packed.getvalue()), dtype=torch.uint8)


def _unpacked(packed: Tensor, k: int) -> Tensor:
    """The k images (k, 3 s²) uint8 of `_packed`."""
    with Image.open(BytesIO(packed.numpy().tobytes())) as picture:
        sheet = torch.from_numpy(np.array(picture.convert("RGB")))
    side = len(sheet) // math.ceil(k**0.5)
    return sheet.unfold(0, side, side).unfold(1, side, side).flatten(0, 1).flatten(1)[:k]


def kept_reconstructions(folder: Path) -> tuple[Tensor, dict[str, Tensor]]:
    """x_hat (…, d) that is kept in `folder`, and the rows of its images; ReconError where it is
    missing or damaged.
    """
    found = load_tensors(folder / RECONSTRUCTIONS)
    try:
        low, high = found.pop("low"), found.pop("high")
        levels = found.pop("levels", None)
        if levels is None:
            levels = _unpacked(found.pop("webp"), low.numel()).unflatten(0, low.shape[:-1])
    except (KeyError, OSError, RuntimeError) as error:
        raise ReconError(f"{folder / RECONSTRUCTIONS} is damaged: {error}") from error
    return low + levels / LEVELS * (high - low), found


def commit(root: Path) -> str:
    """Short hash of HEAD, "-dirty" with uncommitted changes in recon/, companion/ or notebooks/;
    "unknown" without a commit.
    """
    head = _git(root, "rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    return head + (
        "-dirty"
        if _git(root, "status", "--porcelain", "--", "recon", "companion", "notebooks")
        else ""
    )


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
