"""A toy in the place of an experiment, through the real command line, store, loop and sweep; and
what can happen to files. Shared by the tests of robustness, which say what was done and what has to
come of it: a correct result, or one line that begins with "recon:" — never a traceback, a hang or a
result store that is worse off than before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shutil
import signal
import struct
import tempfile
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from companion.chapters import (
    Entry,
    catalogue,  # noqa: F401  (before `register` replaces what it imports)
)
from companion.chapters import run as running
from companion.chapters.base import Context, Experiment, Outcome
from companion.store.record import Record
from companion.store.results import Claim, load_result
from recon import cli
from recon.images import photos as photographs
from recon.images.pool import ImagePool
from recon.images.registry import load_pool
from recon.optim.loop import LoopSettings, iterate

if not Path("/proc/self/statm").is_file():
    pytest.skip(
        "needs Linux: pipes, locks, limits and /dev/full as they are there", allow_module_level=True
    )

NAME = "toy"
RUN = ("run", NAME, "--profile", "smoke", "--data", "photos", "--device", "cpu")
LIMIT_S = 20  # what takes longer hangs


# ------------------------------------------------------------------------------------------ the toy


@dataclasses.dataclass(frozen=True)
class Part:
    factor: float = 0.5
    names: tuple[str, ...] = ("a", "b")


@dataclasses.dataclass(frozen=True)
class Sizes:
    steps: int = 6
    rule: str = "half"
    part: Part = Part()


class Metrics(Record):
    """n_train, sum, energies (a list) and none."""


def unit(name: str) -> dict:
    return {"x": torch.randn(100, generator=torch.Generator().manual_seed(ord(name)))}


def compute(sizes: Sizes, context: Context, at_step: Callable[[int], object]) -> Outcome[Metrics]:
    """A sweep, then a loop, both with checkpoints after every step; at_step is called after each of
    the loop's.
    """
    runs = context.sweep(unit, list(sizes.part.names), "sweep")
    start = torch.randn(1, 500, generator=torch.Generator().manual_seed(context.seed))

    def step(state: dict) -> dict:
        x = state["accepted"]["x"] * sizes.part.factor
        return {"accepted": {"x": x, "energy": (x**2).sum(1)}}

    state, history = iterate(
        lambda: {"accepted": {"x": start, "energy": (start**2).sum(1)}},
        step,
        LoopSettings(sizes.steps, every_s=-1.0),
        checkpoint=context.checkpoints.at("loop"),
        observe=lambda k, state: at_step(k),
    )
    x = state["accepted"]["x"] + sum(run["x"].repeat(5) for run in runs.values())
    return Outcome(
        Metrics(
            n_train=2, sum=x.double().sum().item(), energies=history.flatten().tolist(), none=None
        ),
        {"x": x, "history": history},
    )


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    return [
        Claim(
            "toy",
            section="3.2",
            sentence="A sentence — with ‖θ‖.",
            paper="1",
            ours=f"{metrics.sum:.6f}",
            verdict="finding",
        )
    ]


def play(
    monkeypatch: pytest.MonkeyPatch,
    at_step: Callable[[int], object] = lambda step: None,
    **figures: Any,
) -> None:
    """Register the toy, alone."""

    def run(sizes: Sizes, context: Context) -> Outcome[Metrics]:
        return compute(sizes, context, at_step)

    sizes = {"smoke": Sizes(), "laptop": Sizes(), "paper": Sizes()}
    register(monkeypatch, Experiment(NAME, sizes, Metrics, run, claims, figures))


def register(monkeypatch: pytest.MonkeyPatch, *experiments: Experiment[Any, Any]) -> None:
    """These are all the experiments there are."""
    registry = {experiment.name: experiment for experiment in experiments}
    entry = Entry(folder="toy", chapter="02-toy", summary="A toy.", cost="0 s, 0 s, 0 s")
    for module in ("companion.chapters", "companion.press.publish"):
        monkeypatch.setattr(f"{module}.registry", lambda: registry)
    for module in ("companion.chapters", "companion.chapters.catalogue"):
        monkeypatch.setattr(f"{module}.entries", lambda: dict.fromkeys(registry, entry))


@functools.cache
def photos() -> ImagePool:
    return load_pool("photos")


@pytest.fixture(autouse=True)
def stage(monkeypatch, tmp_path):
    """The toy, no network, no folder of the user's, and an end to what hangs."""
    pool = photos()

    def hang(*_):
        raise AssertionError(f"this took longer than {LIMIT_S} s")

    play(monkeypatch)
    monkeypatch.setattr(photographs, "load", lambda: pool)
    monkeypatch.setattr(running, "commit", lambda root: "abc1234")  # this and the next save time
    monkeypatch.setattr("recon.images.files.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", no_route)
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("RECON_OUT", str(tmp_path / "default out"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def no_route(*_, **__):
    raise urllib.error.URLError("no route")


def call(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of the command line; and what holds for every call whatsoever."""
    code, out, err = quiet(*arguments)
    assert "Traceback" not in out + err and code in (0, 1, 2)
    if code:
        assert err.startswith("recon: ") and err.endswith("\n") and err.count("\n") == 1, err
        assert err.rstrip("\n").isprintable() and len(err) > 20, err
    return code, out, err


def quiet(*arguments: str) -> tuple[int, str, str]:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(arguments)
            except SystemExit as stop:  # argparse
                code = stop.code or 0
        return code, *(stream.seek(0) or stream.read() for stream in (out, err))


def refused(arguments: tuple[str, ...], message: str) -> None:
    code, _, err = call(*arguments)
    assert (code, message in err) == (2, True), (code, err)


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> Path:
    """A store that nothing has happened to."""
    out = tmp_path_factory.mktemp("calm")
    with pytest.MonkeyPatch.context() as patch:
        play(patch)
        assert call(*RUN, "--out", str(out))[0] == 0
    return out


@pytest.fixture
def store(calm, tmp_path) -> Path:
    """A copy of it."""
    return shutil.copytree(calm, tmp_path / "a store ü")


def contents(out: Path, seed: int = 0) -> tuple[dict, dict]:
    """Metrics and arrays of a store that is valid, with nothing lying about."""
    result = load_result(out / NAME, Metrics)
    assert result.made.seed == seed and sorted(p.name for p in (out / NAME).iterdir()) == [
        "arrays.safetensors",
        "result.json",
    ]
    return dict(result.metrics), {name: array.tolist() for name, array in result.arrays.items()}


# ------------------------------------------------------------------------------------------- damage


def overwrite(content: bytes | Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        path.write_bytes(content(path.read_bytes()) if callable(content) else content)

    return do


def edit(change: Callable[[dict], object]) -> Callable[[Path], None]:

    def do(path: Path) -> None:
        meta = json.loads(path.read_text())
        path.write_text(json.dumps(change(meta) or meta))

    return do


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        path.unlink()
        make(path)

    return do


def header(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


DEEP = b"[" * 100_000
#: to any file
ANY = {
    "empty": overwrite(b""),
    "cut in half": overwrite(lambda b: b[: len(b) // 2]),
    "binary": overwrite(b"\xff\xfe\x00" * 99),
    "a pipe": instead(os.mkfifo),
    "a link to nowhere": instead(lambda path: path.symlink_to(path.parent / "nowhere")),
}
FOLDER = {"a folder": instead(lambda path: (path / "below").mkdir(parents=True))}
JSON = {
    "a list": overwrite(b"[]"),
    "deep inside": overwrite(lambda b: b.replace(b'"none": null', b'"none": ' + DEEP)),
    "a field too many": edit(lambda m: m.update(more=1)),
    "seed a string": edit(lambda m: m.update(seed="0")),
    "a claim without verdict": edit(lambda m: m["claims"][0].pop("verdict")),
}
TENSORS = {
    "tensor larger than the file": overwrite(
        header(b'{"x":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}')
    ),
    "a value's bit flipped": overwrite(lambda b: b[:-5] + bytes([b[-5] ^ 64]) + b[-4:]),
    "another program's file": lambda path: safetensors_of(path, {"format": "pt"}),
}


def safetensors_of(path: Path, metadata: dict) -> None:
    safetensors.torch.save_file({"x": torch.zeros(3)}, path, metadata=metadata)


def interrupt_at(step: int) -> Callable[[int], None]:
    def at_step(k: int) -> None:
        if k == step:
            raise KeyboardInterrupt

    return at_step


def fork(action: Callable[[], int]) -> int:
    """A process that has everything imported; its exit code is what `action` returns."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it does not outlive a test that fails
        signal.alarm(LIMIT_S)
        try:
            os._exit(action())
        finally:
            os._exit(99)
    return pid
