"""What was done to the command line and to every file it reads, and what has to come of it: a correct result, or one
line that begins with "recon:" — never a traceback, a hang or a result store that is worse off than before.

The tables say it all (READ, STORED, UNFINISHED, PAGES, TOCS, KEPT, SUBSETS, ARGUMENTS, WRITES); below each is the one
test that works through it.  Most of it runs a toy in the place of an experiment, through the real command line, store,
loop and sweep.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import faulthandler
import functools
import hashlib
import io
import itertools
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_publish import chapter, pretend, repo, write  # noqa: F401  (repo is a fixture)
from torchvision.datasets import CIFAR10

from recon import chapters as experiments
from recon import cli
from recon.chapters import Experiment
from recon.errors import ReconError
from recon.images import pools as data
from recon.optim.loop import iterate
from recon.press import html, publish
from recon.press.runner import check_parameters
from recon.store.results import Claim, Outcome, load_result, load_tensors, save_tensors
from recon.store.sweep import sweep

if not Path("/proc/self/statm").is_file():
    pytest.skip("needs Linux: pipes, locks, limits and /dev/full as they are there", allow_module_level=True)

NAME = "collapse"
RUN = ("run", NAME, "--profile", "smoke", "--data", "photos", "--device", "cpu")
LIMIT_S = 20  # what takes longer hangs
LIMIT_BYTES = 2 << 30  # what takes more would take all there is


# ------------------------------------------------------------------------------------------------ the toy


@dataclasses.dataclass(frozen=True)
class Config:
    steps: int = 6


def unit(name: str) -> dict:
    return {"x": torch.randn(100, generator=torch.Generator().manual_seed(ord(name)))}


def toy(config: Config, context, at_step: Callable[[int], object] = lambda step: None) -> Outcome:
    """A sweep, then a loop, both with checkpoints after every step; at_step is called after each of the loop's."""
    runs = sweep(unit, ["a", "b"], context.checkpoints / "sweep", scheduler=context.scheduler)
    start = torch.randn(1, 500, generator=context.generator())

    def step(state: dict) -> dict:
        x = state["accepted_x"] / 2
        return {"accepted_x": x, "accepted_energy": (x**2).sum(1)}

    state, history = iterate(
        lambda: {"accepted_x": start, "accepted_energy": (start**2).sum(1)},
        step,
        config.steps,
        checkpoint=context.checkpoints / "loop.safetensors",
        every_s=-1.0,
        observe=lambda k, state: at_step(k),
    )
    x = state["accepted_x"] + runs["a"]["x"].repeat(5) + runs["b"]["x"].repeat(5)
    metrics = {"n_train": 2, "sum": x.double().sum().item(), "energies": history.flatten().tolist(), "none": None}
    claim = Claim("toy", "3.2", "A sentence — with ‖θ‖.", "1", f"{metrics['sum']:.6f}", "", "finding")
    return Outcome(metrics, [claim], {"x": x, "history": history})


def play(monkeypatch, at_step: Callable[[int], object] = lambda step: None) -> None:
    """Register the toy, alone."""

    def run(config, context):
        return toy(config, context, at_step)

    played = Experiment(NAME, "02-collapse", "3.2", "A toy.", {"smoke": "0 s"}, {"smoke": Config()}, run, {})
    monkeypatch.setattr(experiments, "registry", lambda: {NAME: played})


@functools.cache
def photos() -> data.ImagePool:
    return data.load_pool("photos")


@pytest.fixture(autouse=True)
def stage(monkeypatch, tmp_path):
    """The toy, no network, no folder of the user's, and an end to what hangs."""
    pool = photos()

    def hang(*_):
        raise AssertionError(f"this took longer than {LIMIT_S} s")

    play(monkeypatch)
    monkeypatch.setattr(data, "_photos", lambda: pool)
    monkeypatch.setattr(experiments, "current_commit", lambda: "abc1234")  # this and the next save time
    monkeypatch.setattr(experiments, "code_of", lambda experiment: "code")
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", no_route)
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("RECON_OUT", str(tmp_path / "default out"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    before, memory = signal.signal(signal.SIGALRM, hang), resource.getrlimit(resource.RLIMIT_AS)
    signal.alarm(LIMIT_S)
    faulthandler.dump_traceback_later(4 * LIMIT_S, exit=True)  # a Rust library opens pipes and hears no alarm
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT_BYTES, memory[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, memory)
    faulthandler.cancel_dump_traceback_later()
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
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(arguments)
            except SystemExit as stop:  # argparse
                code = stop.code or 0
        return code, *(stream.seek(0) or stream.read() for stream in (out, err))


def refused(arguments: tuple[str, ...], message: str) -> None:
    code, _, err = call(*arguments)
    assert (code, message in err) == (2, True), (code, err)


def sentence(action: Callable[[], object], message: str) -> None:
    """For what has no command line of its own on another repository: a ReconError of one line."""
    with pytest.raises(ReconError) as caught:
        action()
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)


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
    result = load_result(out / NAME)
    assert result.seed == seed and sorted(p.name for p in (out / NAME).iterdir()) == [
        "arrays.safetensors",
        "result.json",
    ]
    return result.metrics, {name: array.tolist() for name, array in result.arrays.items()}


# ------------------------------------------------------------------------------------------------ damage


def overwrite(content: bytes | Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        path.write_bytes(content(path.read_bytes()) if callable(content) else content)

    return do


def edit(change: Callable[[dict], object]) -> Callable[[Path], None]:
    """Change the JSON as a careful forger would: the checksum is gone too."""

    def do(path: Path) -> None:
        meta = json.loads(path.read_text())
        meta.pop("sha256", None)
        path.write_text(json.dumps(change(meta) or meta))

    return do


def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        path.unlink()
        make(path)

    return do


def sparse(path: Path) -> None:
    """8 TB of zeros that take no space."""
    try:
        os.truncate(path, 1 << 43)
    except OSError:
        pytest.skip("this file system has no files of 8 TB")


def header(content: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(content) if length is None else length) + content


DEEP = b"[" * 100_000
#: to any file
ANY = {
    "empty": overwrite(b""),
    "cut in half": overwrite(lambda b: b[: len(b) // 2]),
    "last byte cut": overwrite(lambda b: b.rstrip()[:-1]),
    "binary": overwrite(b"\xff\xfe\x00" * 99),
    "deeply nested": overwrite(DEEP),
    "huge": sparse,
    "a pipe": instead(os.mkfifo),
    "links in a circle": instead(lambda path: path.symlink_to(path)),
    "a link to nowhere": instead(lambda path: path.symlink_to(path.parent / "nowhere")),
    "a link to /dev/zero": instead(lambda path: path.symlink_to("/dev/zero")),
}
FOLDER = {"a folder": instead(lambda path: (path / "below").mkdir(parents=True))}
JSON = {
    "a list": overwrite(b"[]"),
    "a number": overwrite(b"1"),
    "a string": overwrite(b'"a"'),
    "null": overwrite(b"null"),
    "not a number": overwrite(b"NaN"),
    "a number of 5000 digits": overwrite(b"9" * 5000),
    "deep inside": overwrite(lambda b: b.replace(b'"none": null', b'"none": ' + DEEP)),
    "a digit changed": overwrite(lambda b: b.replace(b'"seed": 0', b'"seed": 1')),
    "infinity smuggled in": overwrite(lambda b: b.replace(b'"none": null', b'"none": Infinity')),
    "a field missing": edit(lambda m: m.pop("seed")),
    "a field too many": edit(lambda m: m.update(more=1)),
    "data a string": edit(lambda m: m.update(data="photos")),
    "data without a name": edit(lambda m: m["data"].pop("name")),
    "seed a string": edit(lambda m: m.update(seed="0")),
    "profile a list": edit(lambda m: m.update(profile=[])),
    "claims a number": edit(lambda m: m.update(claims=3)),
    "claims of strings": edit(lambda m: m.update(claims=["a"])),
    "a claim without verdict": edit(lambda m: m["claims"][0].pop("verdict")),
    "a claim with a number": edit(lambda m: m["claims"][0].update(ours=1.0)),
    "a claim's id a list": edit(lambda m: m["claims"][0].update(id=[["a\nb"]])),
}
TENSORS = {
    "header of 2^63 bytes": overwrite(header(b"{}", 2**63)),
    "header longer than the file": overwrite(header(b"{}", 4096)),
    "header a list": overwrite(header(b"[]")),
    "header deeply nested": overwrite(header(b'{"x":' + DEEP)),
    "tensor larger than the file": overwrite(
        header(b'{"x":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}')
    ),
    "shape that overflows": overwrite(
        header(b'{"x":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,4]}}') + bytes(4)
    ),
    "unknown type": overwrite(header(b'{"x":{"dtype":"PICKLE","shape":[1],"data_offsets":[0,1]}}') + b"x"),
    "a value's bit flipped": overwrite(lambda b: b[:-5] + bytes([b[-5] ^ 64]) + b[-4:]),
    "another program's file": lambda path: safetensors_of(path, {"format": "pt"}),
}


def safetensors_of(path: Path, metadata: dict) -> None:
    safetensors.torch.save_file({"x": torch.zeros(3)}, path, metadata=metadata)


# ------------------------------------------------------------------------------------------------ the store

#: damage to result.json: `claims` and `keep` say so, `run` computes again
READ = ANY | JSON | FOLDER
#: damage to either file of a stored result, of which `run` makes a correct one again; a folder it leaves alone
STORED = [("result.json", how) for how in ANY | JSON] + [("arrays.safetensors", how) for how in ANY | TENSORS]


@pytest.mark.parametrize("how", READ)
def test_claims_and_keep_say_that_a_result_is_damaged(store, how):
    READ[how](store / NAME / "result.json")
    refused(("claims", "--out", str(store)), "damaged")
    refused(("claims", "--json", "--out", str(store)), "damaged")
    refused(("keep", str(store / NAME)), "damaged")


@pytest.mark.parametrize(("name", "how"), STORED)
def test_a_damaged_result_is_computed_again(store, calm, name, how):
    (ANY | JSON | TENSORS)[how](store / NAME / name)
    assert call(*RUN, "--out", str(store))[0] == 0
    assert contents(store) == contents(calm)


@pytest.mark.parametrize("name", ["result.json", "arrays.safetensors"])
def test_a_folder_where_a_result_belongs_is_refused_before_anything_is_computed(store, monkeypatch, name):
    FOLDER["a folder"](store / NAME / name)
    play(monkeypatch, lambda step: pytest.fail("computed"))
    refused((*RUN, "--out", str(store)), f"{name} is a folder")
    assert (store / NAME / name / "below").is_dir()


@pytest.mark.parametrize("name", ["result.json", "arrays.safetensors"])
def test_no_flipped_bit_anywhere_is_taken_for_a_value(store, calm, name):
    path = store / NAME / name
    whole, truth = path.read_bytes(), contents(calm)
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ (1 << position % 8)]) + whole[position + 1 :])
        with contextlib.suppress(ReconError):
            assert contents(store) == truth, position


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(["result.json", "arrays.safetensors"]),
    start=st.integers(0, 999),
    removed=st.integers(0, 40),
    inserted=st.binary(max_size=40) | st.text('[]{}",:-0eNaItrufls', max_size=20).map(str.encode),
)
def test_nothing_put_into_a_file_is_taken_for_a_value(store, calm, name, start, removed, inserted):
    path, whole = store / NAME / name, (calm / NAME / name).read_bytes()
    cut = start * len(whole) // 1000
    try:
        path.write_bytes(whole[:cut] + inserted + whole[cut + removed :])
        with contextlib.suppress(ReconError):
            assert contents(store) == contents(calm)
    finally:
        path.write_bytes(whole)


def test_what_older_versions_stored_without_checksums_is_still_read(store, calm):
    edit(lambda meta: None)(store / NAME / "result.json")
    assert contents(store) == contents(calm)
    arrays = load_result(calm / NAME).arrays
    safetensors.torch.save_file(arrays, store / "old")
    assert load_tensors(store / "old").keys() == arrays.keys()


def test_checksums_take_every_type_and_shape(tmp_path):
    tensors = {
        **{str(kind): torch.ones(2, 3).to(kind) for kind in (torch.bfloat16, torch.bool, torch.int64, torch.float64)},
        **{"scalar": torch.tensor(1.0), "empty": torch.empty(0, 3), "turned": torch.rand(3, 2).mT},
    }
    save_tensors(tensors, tmp_path / "t")
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in load_tensors(tmp_path / "t").items())
    save_tensors({}, tmp_path / "t")
    assert load_tensors(tmp_path / "t") == {}


# ------------------------------------------------------------------------------------- unfinished runs

#: damage to what an interrupted run goes on from: the result is that of an undisturbed run
UNFINISHED = [(name, how) for name in ("loop.safetensors", "sweep/a.safetensors") for how in ANY | TENSORS]


def interrupt_at(step: int):
    def at_step(k: int) -> None:
        if k == step:
            raise KeyboardInterrupt

    return at_step


@pytest.fixture
def unfinished(tmp_path, monkeypatch) -> Path:
    """The checkpoints of a run that was interrupted in step 4."""
    play(monkeypatch, interrupt_at(4))
    code, _, err = call(*RUN, "--out", str(tmp_path / "out"))
    assert code == 1 and "goes on from the last checkpoint" in err
    play(monkeypatch)
    return next((tmp_path / "out" / NAME).glob("checkpoint-*"))


def test_an_interrupted_run_goes_on(unfinished, calm, monkeypatch):
    steps = []
    play(monkeypatch, steps.append)
    assert call(*RUN, "--out", str(unfinished.parents[1]))[0] == 0
    assert steps == [4, 5, 6] and contents(unfinished.parents[1]) == contents(calm)


@pytest.mark.parametrize(("name", "how"), UNFINISHED)
def test_a_damaged_checkpoint_costs_time_and_nothing_else(unfinished, calm, name, how):
    (ANY | TENSORS)[how](unfinished / name)
    assert call(*RUN, "--out", str(unfinished.parents[1]))[0] == 0
    assert contents(unfinished.parents[1]) == contents(calm)


@pytest.mark.parametrize("name", ["loop.safetensors", "sweep/a.safetensors", "sweep", "."])
def test_something_in_the_way_of_a_checkpoint_is_one_sentence(unfinished, name):
    path = unfinished / name
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("a file")
    else:
        FOLDER["a folder"](path)
    refused((*RUN, "--out", str(unfinished.parents[1])), "cannot be written")


def test_what_a_link_named_like_an_old_checkpoint_points_to_stays(store, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (store / NAME / "checkpoint-old").symlink_to(tmp_path / "precious")
    assert call(*RUN, "--seed", "1", "--out", str(store))[0] == 0
    assert (tmp_path / "precious" / "file").exists()


# ------------------------------------------------------------------------------------------------ full disks

#: (what fails, on files named so, with) while seed 1 is run where seed 0 is stored
WRITES = [
    (what, name, number)
    for what in ("tempfile.mkstemp", "os.replace")
    for name in ("result.json", "arrays.safetensors", "loop.safetensors", "b.safetensors")
    for number in (errno.ENOSPC, errno.EROFS, errno.EIO)
]


@pytest.mark.parametrize(("what", "name", "number"), WRITES)
def test_a_failing_disk_is_one_sentence_and_the_old_result_stays(store, calm, monkeypatch, what, name, number):
    module = {"tempfile": tempfile, "os": os}[what.split(".")[0]]
    real = getattr(module, what.split(".")[1])

    def fail(*arguments, **keywords):
        target = keywords.get("prefix") or Path(arguments[-1]).name
        if name in str(target):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(module, what.split(".")[1], fail)
        refused((*RUN, "--seed", "1", "--out", str(store)), os.strerror(number))
    for checkpoints in (store / NAME).glob("checkpoint-*"):
        shutil.rmtree(checkpoints)
    if (what, name) == ("os.replace", "result.json"):  # between the two: noticed, and done again
        assert call("claims", "--out", str(store))[0] == 0
        assert call(*RUN, "--out", str(store))[0] == 0
    assert contents(store) == contents(calm)


def test_a_disk_that_is_really_full_is_one_sentence_and_the_old_result_stays(store, calm, tmp_path):
    """Files may have 1500 bytes, which is less than the arrays take."""

    def child() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return call(*RUN, "--seed", "1", "--out", str(store))[0] + 40

    assert os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1]) == 42
    shutil.rmtree(next((store / NAME).glob("checkpoint-*")))
    assert contents(store) == contents(calm)


def test_a_folder_that_takes_no_files_is_refused_before_anything_is_computed(store, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    play(monkeypatch, lambda step: pytest.fail("computed"))
    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(ReconError, match="cannot be written.*Read-only"):
        experiments.run(NAME, "smoke", "photos", "cpu", seed=1, out=store)


@pytest.mark.parametrize("place", ["{}", "{}/below", "{}/far/below", "/dev/null", "/dev/full", "/proc/nothing"])
def test_output_where_no_folder_can_be(tmp_path, place):
    (tmp_path / "a file").write_text("precious")
    refused((*RUN, "--out", place.format(tmp_path / "a file")), "cannot be written")
    assert (tmp_path / "a file").read_text() == "precious"


# ------------------------------------------------------------------------------------- kills, two at once


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


@pytest.mark.parametrize("when", [("save_file", n) for n in (2, 5, 9)] + [("replace", n) for n in (1, 3, 9, 10, 11)])
def test_killed_at_any_write_the_next_run_gives_the_result(store, monkeypatch, when):
    """Seed 1 is killed at its n-th write, where seed 0 is stored; then both can be had, and nothing lies about."""
    function, number = when
    count = itertools.count(1)
    module = {"save_file": safetensors.torch, "replace": os}[function]
    real = getattr(module, function)

    def deadly(*arguments, **keywords):
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **keywords)

    def child() -> int:
        setattr(module, function, deadly)
        return call(*RUN, "--seed", "1", "--out", str(store))[0]

    code = os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1])
    assert code == (-signal.SIGKILL if number <= {"save_file": 9, "replace": 10}[function] else 0)
    assert call("claims", "--out", str(store))[0] == 0  # the old one or the new one, whole
    out = store.with_name("undisturbed")
    for seed in (1, 0):
        for folder in (store, out):
            assert call(*RUN, "--seed", str(seed), "--out", str(folder))[0] == 0
        assert contents(store, seed) == contents(out, seed)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_second_run_in_the_same_folder_is_refused_and_the_first_is_right(tmp_path, calm, monkeypatch, seed):
    """Both in one process, at a moment that is certain; the lock does not care."""
    seconds = []
    second = (*RUN, "--seed", str(seed), "--out", str(tmp_path / "out"))
    play(monkeypatch, lambda step: seconds.append(call(*second)) if step == 3 else None)
    assert call(*RUN, "--out", str(tmp_path / "out"))[0] == 0
    ((code, _, err),) = seconds
    assert code == 2 and "another run is at work in" in err
    assert contents(tmp_path / "out") == contents(calm)
    play(monkeypatch)
    assert call(*second)[0] == 0


def test_two_results_that_are_stored_at_once_do_not_mix(tmp_path, calm, monkeypatch):
    """The moment that does the damage without a lock: the second run stores while the first is storing."""
    replace, seconds = os.replace, []

    def meanwhile(source, target):
        replace(source, target)
        if Path(target).name == "arrays.safetensors" and not seconds:
            seconds.append(None)
            seconds[0] = call(*RUN, "--seed", "1", "--out", str(tmp_path / "out"))[0]

    monkeypatch.setattr(os, "replace", meanwhile)
    assert call(*RUN, "--out", str(tmp_path / "out"))[0] == 0
    assert contents(tmp_path / "out") == contents(calm) and seconds == [2]


def test_two_processes_in_one_folder_and_the_lock_of_a_killed_one(tmp_path, calm, monkeypatch):
    out = str(tmp_path / "out")
    for end in ("done", "killed"):
        started, start = os.pipe()
        wait, go = os.pipe()

        def at_step(step: int, start=start, wait=wait) -> None:
            if step == 2:
                os.write(start, b"x")
                os.read(wait, 1)

        def child() -> int:
            return call(*RUN, "--seed", "0" if end == "done" else "1", "--out", out)[0] + 40  # noqa: B023

        play(monkeypatch, at_step)
        pid = fork(child)
        play(monkeypatch)
        assert os.read(started, 1) == b"x"
        refused((*RUN, "--seed", "7", "--out", out), "another run is at work in")
        if end == "done":
            os.write(go, b"x")
        else:
            assert call(*RUN, "--out", out)[0] == 0  # what is stored is served while another seed is computed
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == (40 if end == "done" else -signal.SIGKILL)
        for handle in (started, start, wait, go):
            os.close(handle)
    assert call(*RUN, "--out", out)[0] == 0  # still seed 0
    assert call(*RUN, "--seed", "1", "--out", out)[0] == 0
    assert call(*RUN, "--out", out)[0] == 0
    assert contents(tmp_path / "out") == contents(calm)


def test_without_locks_a_run_works_all_the_same(tmp_path, calm, monkeypatch):
    import fcntl

    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert call(*RUN, "--out", str(tmp_path / "out"))[0] == 0
    assert contents(tmp_path / "out") == contents(calm)


# ------------------------------------------------------------------------------------------------ the arguments

LONG = "x" * 5000
#: arguments -> what the one line says; exit code 2
ARGUMENTS = {
    (): "required",
    ("fly",): "invalid choice",
    ("",): "invalid choice",
    ("run",): "required",
    ("run", "a\nb"): "unknown experiment 'a b'",
    ("run", LONG): "unknown experiment",
    ("run", "\x1b[31m\0"): "unknown experiment '\\x1b[31m\\x00'",
    ("run", "\udcff"): "unknown experiment '\\udcff'",
    (*RUN, "more\nand more"): "unrecognized arguments: more and more",
    (*RUN, "--workers", "0"): "number of workers must be at least 1",
    (*RUN, "--workers", "-1"): "number of workers must be at least 1",
    (*RUN, "--workers", "abc"): "invalid int value",
    (*RUN, "--seed", "-1"): "must not be negative",
    (*RUN, "--seed", str(2**62)): "2^62 or more",
    (*RUN, "--seed", "9" * 4000): "2^62 or more",
    (*RUN, "--seed", "9" * 5000): "invalid int value",
    (*RUN, "--seed", "nan"): "invalid int value",
    (*RUN, "--seed", "1.5"): "invalid int value",
    (*RUN, "--profile", "huge"): "invalid choice",
    (*RUN, "--device", "tpu"): "unknown device 'tpu'",
    (*RUN, "--device", ""): "unknown device ''",
    (*RUN, "--data", ""): "unknown data source",
    (*RUN, "--data", "../cifar10"): "unknown data source",
    (*RUN, "--data", "cifar10", "--data-root", ""): "must not be empty",
    (*RUN, "--data", "auto", "--data-root", "nowhere"): "does not exist",
    (*RUN, "--data", "auto", "--data-root", "/dev/null"): "holds neither",
    (*RUN, "--data", "auto", "--data-root", "."): "holds neither",
    (*RUN, "--data-root", LONG): "cannot be a path: File name too long",
    (*RUN, "--out", ""): "must not be empty",
    (*RUN, "--out", " "): "must not be empty",
    (*RUN, "--out", LONG): "cannot be a path: File name too long",
    (*RUN, "--out", "a\0b"): "cannot be a path",
    (*RUN, "--out", "~no-such-user/x"): "cannot be a path",
    (*RUN, "--out", "\udcff"): "cannot be written",  # bytes that are not UTF-8
    (*RUN, "--scheduler", ""): "must not be empty",
    (*RUN, "--scheduler", "nonsense://x"): "no Dask scheduler answers",
    (*RUN, "--scheduler", "tcp://127.0.0.1:1"): "no Dask scheduler answers",
    ("book", "--seed", "-1"): "must not be negative",
    ("book", "--device", "tpu"): "unknown device 'tpu'",
    ("book", "--data-root", "nowhere"): "does not exist",
    ("publish", ""): "must not be empty",
    ("publish", "no\nwhere"): "there is no edition 'no where'",
    ("publish", LONG): "cannot be a path",
    ("publish", str(publish.ROOT / "book")): "is where the published edition lies",
    ("keep",): "required",
    ("keep", ""): "must not be empty",
    ("keep", "nowhere"): "there is no result in nowhere",
    ("keep", "/dev/null"): "there is no result",
    ("claims", "--out", "/dev/full"): "there are no results",
    ("claims", "--out", "~nobody-here"): "cannot be a path",
    ("claims", "--out", LONG): "cannot be a path",
}


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda a: ascii(" ".join(a))[:60])
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, monkeypatch, tmp_path):
    monkeypatch.setattr("recon.store.sweep.CONNECT_TIMEOUT_S", 0.3)
    refused(arguments, ARGUMENTS[arguments])
    assert not list(tmp_path.glob("*/*/result.json"))


def test_a_gpu_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    refused((*RUN, "--device", "cuda"), "no usable GPU")
    refused(("book", "--device", "cuda"), "no usable GPU")


@pytest.mark.parametrize("name", ["a b", "ü 😀/c", "new\nline", "{braces} [0] *", "'quotes\" $HOME", "-", "~x"])
def test_results_go_where_they_are_told_whatever_the_name(tmp_path, calm, name):
    out = tmp_path / name
    for _ in range(2):  # computed, then found
        code, printed, _ = call(*RUN, "--out", str(out))
        assert code == 0 and "result.json" in printed
    assert contents(out) == contents(calm)
    assert call("claims", "--out", str(out))[0] == 0


WORDS = ["run", "list", "claims", "keep", NAME, "--out", "--seed", "--workers", "--device", "--profile", "--data"]
WORDS += ["--data-root", "--json", "--help", "--version", "smoke", "photos", "auto", "cpu", "-1", "0", str(2**64), "--"]
odd = st.text(max_size=30).filter(lambda text: not text.startswith(("/", "~")) and ".." not in text)


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS) | odd, max_size=8) | st.lists(odd, max_size=3).map(lambda more: [*RUN, *more]))
@example([*RUN, "--seed", "１２"])
@example([*RUN, "--out=--", "--seed=+7"])
@example(["run", NAME, "--prof", "smoke", "--dat"])
def test_any_arguments_are_either_done_or_refused(arguments):
    code, _, _ = call(*arguments)
    assert code in (0, 2)


# --------------------------------------------------------------------------------------------- the output


def test_terminals_that_know_ascii_alone(calm, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert cli.main(["claims", "--out", str(calm)]) == 0
    assert b"\\xa73.2" in stdout.buffer.getvalue()
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "--help"])
    assert stop.value.code == 0


LONG_OUTPUT = """
import sys
from recon import cli
cli._list = lambda _: cli._print("x" * 99999) or cli._print("y")
sys.exit(cli.main(["list"]))
"""


def test_output_that_nobody_takes():
    """What only a real process shows: how the interpreter ends.  Two of them, side by side."""
    command = f"{sys.executable} -c '{LONG_OUTPUT}'"
    lines = {"head": f"set -o pipefail; {command} | head -c 1 >/dev/null", "full": f"{command} >/dev/full"}
    signal.alarm(60)
    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
    processes = {
        name: subprocess.Popen(["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name, line in lines.items()
    }
    ends = {name: (*process.communicate(), process.returncode) for name, process in processes.items()}
    assert ends["head"] == ("", "", 0)
    out, err, code = ends["full"]
    assert (out, code, err.count("\n")) == ("", 1, 1) and err.startswith("recon: ") and "No space left" in err


# --------------------------------------------------------------------------------------------- CIFAR-10

#: damage to the subset file, known to be damage by its checksum alone
SUBSETS = ANY | FOLDER


class Hostile:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def hostile(tmp_path):
    """A pickle that gives itself away when it is loaded, and whether it was."""
    content, marker = pickle.dumps(Hostile(tmp_path / "owned")), tmp_path / "owned"
    pickle.loads(content)
    assert marker.exists()  # so the tests below can fail
    marker.unlink()
    return content, marker


@pytest.mark.parametrize("source", ["auto", "cifar10"])
@pytest.mark.parametrize("how", SUBSETS)
def test_a_damaged_subset_is_one_sentence_and_never_the_photographs(tmp_path, how, source):
    (tmp_path / data.SUBSET_FILE).write_bytes(b"PK\x03\x04" + b"x" * 999)
    SUBSETS[how](tmp_path / data.SUBSET_FILE)
    arguments = ("run", NAME, "--profile", "smoke", "--data", source, "--data-root")
    for named in (tmp_path, tmp_path / data.SUBSET_FILE):
        code, _, err = call(*arguments, str(named))
        assert code == (1 if how == "huge" else 2), err
        assert not list(tmp_path.glob("default out/*"))


@pytest.mark.parametrize("array", ["images", "labels", "index", "is_test"])
def test_a_pickle_in_the_subset_is_not_loaded_even_with_the_right_checksum(tmp_path, monkeypatch, hostile, array):
    content, marker = hostile
    arrays = {"images": np.zeros((1, 32, 32, 3), np.uint8), "labels": np.zeros(1, int), "index": np.zeros(1, int)}
    arrays["is_test"] = np.zeros(1, bool)
    arrays[array] = np.array([Hostile(marker)], dtype=object)
    path = tmp_path / data.SUBSET_FILE
    np.savez(path, **arrays)
    monkeypatch.setattr(data, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    refused(("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path)), "cannot be read")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["data_batch_1", "data_batch_5", "test_batch", "batches.meta", "all"])
def test_a_pickle_with_the_wrong_checksum_is_never_loaded(tmp_path, monkeypatch, hostile, name):
    """All other files are as they should be; torchvision checks before it loads, and this makes sure that it does."""
    content, marker = hostile
    folder = tmp_path / data.TORCHVISION_FOLDER
    folder.mkdir()
    batch = pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]})
    meta = pickle.dumps({"label_names": ["a", "b"]})
    names = [f"data_batch_{k}" for k in range(1, 6)]
    right = {**dict.fromkeys((*names, "test_batch"), batch), "batches.meta": meta}
    sums = {file: hashlib.md5(content).hexdigest() for file, content in right.items()}
    monkeypatch.setattr(CIFAR10, "train_list", [[file, sums[file]] for file in names])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(
        CIFAR10, "meta", {"filename": "batches.meta", "key": "label_names", "md5": sums["batches.meta"]}
    )
    arguments = ("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path))
    for file, whole in right.items():
        (folder / file).write_bytes(whole)
    refused(arguments, "lacks")  # everything is loaded, there is just not enough of it
    for file in right:
        if name in (file, "all"):
            (folder / file).write_bytes(content)
    refused(arguments, "missing, truncated or damaged")
    assert not marker.exists()


@pytest.mark.parametrize("how", {**ANY, **FOLDER})
def test_damaged_batches_are_one_sentence(tmp_path, how):
    folder = tmp_path / data.TORCHVISION_FOLDER
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"x" * 999)
    if how in ("huge", "a link to /dev/zero"):
        pytest.skip("torchvision reads all of it to know its checksum")
    ({**ANY, **FOLDER})[how](folder / "data_batch_1")
    refused(("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path)), "missing, truncated or damaged")


def test_an_archive_with_the_wrong_checksum_is_never_unpacked(tmp_path):
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../escaped")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    refused(("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path)), "could not be downloaded")
    assert not (tmp_path.parent / "escaped").exists() and not (tmp_path / data.TORCHVISION_FOLDER).exists()


# ------------------------------------------------------------------------------------- pages, editions, the book


def stamped(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        nb = json.loads(path.read_text())
        change(nb)
        path.write_text(json.dumps(nb))

    return do


NOTEBOOKS = (
    ANY
    | FOLDER
    | {how: JSON[how] for how in ("a list", "a number", "a string", "null")}
    | {
        "an object": overwrite(b"{}"),
        "cells an object": stamped(lambda nb: nb.update(cells={})),
        "a cell a string": stamped(lambda nb: nb.update(cells=["a"])),
        "a cell without source": stamped(lambda nb: nb["cells"][1].pop("source")),
        "a version from the future": stamped(lambda nb: nb.update(nbformat=99)),
        "a version that is text": stamped(lambda nb: nb.update(nbformat="four")),
        "metadata a list": stamped(lambda nb: nb.update(metadata=[])),
    }
)
#: damage to a page of an edition; what cannot be a page is not published, the rest of the edition neither
PAGES = NOTEBOOKS | {
    "an output without type": stamped(lambda nb: nb["cells"][1].update(outputs=[{"text": "x"}])),
    "a stamp that is text": stamped(lambda nb: nb["metadata"].update(recon="yes")),
    "a stamp without data": stamped(lambda nb: nb["metadata"]["recon"].pop("data")),
    "data a list": stamped(lambda nb: nb["metadata"]["recon"].update(data=["cifar10"])),
    "a profile that is a list": stamped(lambda nb: nb["metadata"]["recon"].update(profile=["laptop"])),
    "a commit that is a number": stamped(lambda nb: nb["metadata"]["recon"].update(commit=1234567)),
    "a seed that is an object": stamped(lambda nb: nb["metadata"]["recon"].update(seed={})),
    "no stamp": stamped(lambda nb: nb["metadata"].pop("recon")),
}
TOCS = {
    **{how: ANY[how] for how in ("binary", "a pipe", "links in a circle", "a link to nowhere")},
    "deeply nested": overwrite(DEEP[:600]),
    **FOLDER,
    "empty": overwrite(b""),
    "missing": lambda path: path.unlink(),
    "a number": overwrite(b"5"),
    "not YAML": overwrite(b"a: [b\n  c: }"),
    "an impossible date": overwrite(b"root: 2020-99-99"),
    "an object's key": overwrite(b"? {a: b}\n: c"),
    "a Python object": overwrite(b"!!python/object/apply:os.system ['touch owned']"),
    "a circle": overwrite(b"&a [*a, {file: &b {c: *b}}]"),
    "a billion names": overwrite(
        b"".join(
            b"x%d: &x%d [%s]\n" % (k, k, b", ".join([b"*x%d" % (k - 1)] * 9) if k else b"{file: a}") for k in range(40)
        )
    ),
}
#: results that are not taken into the book
KEPT = {
    "an experiment that is a path": (lambda m: m.update(experiment="../../../escaped"), "unknown experiment"),
    "an absolute path": (lambda m: m.update(experiment="/tmp/escaped"), "unknown experiment"),
    "no experiment": (lambda m: m.update(experiment=""), "unknown experiment"),
    "an experiment that is a list": (lambda m: m.update(experiment=[]), "damaged"),
    "smoke": (lambda m: m, "are kept, not smoke"),
    "data that is text": (lambda m: m.update(data="cifar10"), "damaged"),
}


def tree(folder: Path) -> dict:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def edition(repo):  # noqa: F811
    """An edition that could be published, in a repository that has one."""
    made = pretend(repo)
    shutil.copytree(made / "executed", repo / "book" / "executed", dirs_exist_ok=True)
    (repo / "book/executed/results/old").mkdir(parents=True)
    (repo / "book/executed/results/old/result.json").write_text("old")
    return made


@pytest.mark.parametrize("how", PAGES)
def test_a_damaged_page_is_not_published_and_the_old_edition_stays(repo, edition, how):  # noqa: F811
    before = tree(repo / "book")
    PAGES[how](edition / "executed" / "01-one.ipynb")
    sentence(lambda: publish.publish("laptop-cifar10", repo), "01-one")
    assert tree(repo / "book") == before


@pytest.mark.parametrize("how", NOTEBOOKS)
def test_a_damaged_page_is_not_rendered_and_a_damaged_source_not_executed(repo, edition, how):  # noqa: F811
    NOTEBOOKS[how](repo / "book" / "executed" / "01-one.ipynb")
    sentence(lambda: publish.render(repo), "01-one")
    NOTEBOOKS[how](repo / "notebooks" / "01-one.ipynb")
    sentence(lambda: publish.build_edition(root=repo), "01-one")
    assert list((repo / "build").glob("*/.run-*")) == []


@pytest.mark.parametrize("how", TOCS)
def test_a_damaged_table_of_contents_is_one_sentence(repo, edition, how, monkeypatch):  # noqa: F811
    monkeypatch.setattr(html, "_stage", lambda *_: pytest.fail("built"))
    TOCS[how](repo / "_toc.yml")
    sentence(lambda: publish.render(repo), "")
    sentence(lambda: publish.publish("laptop-cifar10", repo), "")
    assert not Path("owned").exists()


@pytest.mark.parametrize("how", KEPT)
def test_a_result_that_does_not_belong_into_the_book_is_not_kept(repo, store, how):  # noqa: F811
    change, message = KEPT[how]
    edit(lambda m: m.update(profile="paper", data={**m["data"], "name": "cifar10"}) if how != "smoke" else None)(
        store / NAME / "result.json"
    )
    edit(change)(store / NAME / "result.json")
    sentence(lambda: publish.keep(store / NAME, repo), message)
    assert not (repo / "book" / "paper-size").exists() and not (repo / "escaped").exists()


def test_what_is_no_figure_is_not_kept(repo, store):  # noqa: F811
    edit(lambda m: m.update(profile="paper", data={**m["data"], "name": "cifar10"}))(store / NAME / "result.json")
    (store / NAME / "folder.png").mkdir()
    os.mkfifo(store / NAME / "pipe.png")
    (store / NAME / "nowhere.png").symlink_to("nowhere")
    (store / NAME / "new\nline.png").write_bytes(b"png")
    assert sorted(tree(publish.keep(store / NAME, repo))) == ["new\nline.png", "result.json"]


def test_a_damaged_result_is_not_published(repo, edition, store):  # noqa: F811
    before = tree(repo / "book")
    shutil.copytree(store, edition / "results")
    assert call("claims", "--out", str(edition / "results"))[0] == 0
    overwrite(lambda b: b[:-9])(edition / "results" / NAME / "result.json")
    sentence(lambda: publish.publish("laptop-cifar10", repo), "damaged")
    shutil.rmtree(repo / "book" / ".executed.new", ignore_errors=True)
    assert tree(repo / "book") == before


def test_the_published_edition_does_not_replace_itself(repo, edition):  # noqa: F811
    """It would lose its results, which lie elsewhere there than in an edition."""
    before = tree(repo / "book")
    for name in (str(repo / "book"), "../book"):
        sentence(lambda name=name: publish.publish(name, repo), "is where the published edition lies")
    assert tree(repo / "book") == before


def test_a_failed_or_killed_exchange_of_editions_puts_the_old_one_back(repo, edition, monkeypatch):  # noqa: F811
    before = tree(repo / "book")
    rename = Path.rename

    def fail(path, target):
        if path.name == ".executed.new":
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="No space"):
            publish.publish("laptop-cifar10", repo)
    shutil.rmtree(repo / "book" / ".executed.new")
    assert tree(repo / "book") == before
    (repo / "book" / "executed").rename(repo / "book" / ".executed.old")  # killed between the two renames
    write(repo, "01-one", chapter("print('changed')"))
    sentence(lambda: publish.publish("laptop-cifar10", repo), "stale")
    assert tree(repo / "book") == before


def test_two_books_at_once_are_refused(repo, edition):  # noqa: F811
    from recon.store.files import only_one

    (repo / "build" / "published").mkdir()
    for folder, action in (
        (edition, lambda: publish.build_edition(root=repo)),
        (edition, lambda: publish.publish("laptop-cifar10", repo)),
        (repo / "book", lambda: publish.publish("laptop-cifar10", repo)),
        (repo / "build" / "published", lambda: publish.render(repo)),
    ):
        with only_one(folder):
            sentence(action, "another run is at work in")


def test_a_checkout_whose_path_has_braces_and_spaces_can_be_read(tmp_path):
    path = write(tmp_path / "my {repo} ü", "01-one", chapter())
    check_parameters(path, {"seed": 1})


def test_names_of_the_tables_are_distinct():
    """A dict union hides a damage that has the name of another."""
    for first, second in itertools.combinations((ANY, JSON, TENSORS, FOLDER), 2):
        assert not first.keys() & second.keys()
    assert len(PAGES) == len(NOTEBOOKS) + 8
