"""What was said to the command line, and what has to come of it: see toys.py."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from toys import NAME, RUN, call, calm, contents, refused, stage  # noqa: F401  (calm and stage are fixtures)

from companion.chapters.run import run
from recon import cli

pytestmark = pytest.mark.slow

# ------------------------------------------------------------------------------------ the arguments

LONG = "x" * 5000
#: arguments -> what the one line says, exit code 2; for others see test_cli.py
ARGUMENTS = {
    ("run", "\x1b[31m\0"): "unknown experiment '\\x1b[31m\\x00'",
    (*RUN, "--seed", str(2**62)): "2^62 or more",
    (*RUN, "--data", "auto", "--data-root", "."): "holds neither",
    (*RUN, "--data-root", LONG): "cannot be a path: File name too long",
    (*RUN, "--out", ""): "must not be empty",
    (*RUN, "--out", "a\0b"): "cannot be a path",
    (*RUN, "--out", "\udcff"): "cannot be written",  # bytes that are not UTF-8
    (*RUN, "--set", "stepz=3"): "toy has no size 'stepz': did you mean 'steps'?",
    (*RUN, "--set", "steps"): "must be FIELD=VALUE, not 'steps'",
    (*RUN, "--set", "steps=many"): "steps of toy cannot be 'many'",
    (*RUN, "--set", "part.facto=1"): "toy has no size 'part.facto': did you mean 'part.factor'?",
    (*RUN, "--set", "steps.more=1"): "toy has no size 'steps.more': did you mean 'steps'?",
    (*RUN, "--set", "seed=1"): "'seed' is not a size but an option",
    (*RUN, "--set", "steps=" + "[" * 100_000): "steps of toy cannot be",
    (*RUN, "--device", "cuda:x"): "unknown device 'cuda:x'",
    ("publish", "no\nwhere"): "there is no edition 'no where'",
    ("keep", "nowhere"): "there is no result in nowhere",
    ("claims", "--out", "/dev/full"): "there are no results",
}


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda a: ascii(" ".join(a))[:60])
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, tmp_path):
    refused(arguments, ARGUMENTS[arguments])
    assert not list(tmp_path.glob("*/*/result.json"))


def test_sizes_of_the_readers_own_lie_beside_the_plain_result(tmp_path, calm):
    out = tmp_path / "out"
    assert call(*RUN, "--out", str(out))[0] == 0
    options = ("--set", "steps=3", "--set", "part.factor=0.25", "--set", 'part.names=["b"]')
    code, printed, _ = call(*RUN, "--out", str(out), *options)
    assert code == 0
    path = Path(printed.splitlines()[-1])
    made = json.loads(path.read_text())
    assert made["config"] == {"steps": 3, "rule": "half", "part": {"factor": 0.25, "names": ["b"]}}
    assert made["overrides"] == {"steps": 3, "part.factor": 0.25, "part.names": ["b"]}
    assert len(made["metrics"]["energies"]) == 3 and made["key"] in path.parent.name
    assert contents(out) == contents(calm)  # still there, and as it was
    overrides = {"steps": 3, "part.factor": 0.25, "part.names": ("b",)}
    again = run(NAME, "smoke", "photos", "cpu", out=out, **overrides)
    # read, not computed
    assert again.made.key == made["key"] and again.made.seconds == made["seconds"]


def test_a_gpu_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    refused((*RUN, "--device", "cuda"), "no usable GPU")
    refused(("book", "--device", "cuda"), "no usable GPU")


# --------------------------------------------------------------------------------------- the output


def test_terminals_that_know_ascii_alone(calm, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert cli.main(["claims", "--out", str(calm)]) == 0
    assert b"\\xa73.2" in stdout.buffer.getvalue()
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "--help"])
    assert stop.value.code == 0


@pytest.mark.parametrize(
    ("sink", "expected", "message"),
    [("| head -c 1 >/dev/null", 0, ""), (">/dev/full", 1, "No space left")],
)
def test_output_that_nobody_takes(sink, expected, message):
    """What only a real process shows: how the interpreter ends."""
    signal.alarm(60)
    line = f"set -o pipefail; {sys.executable} -m recon.cli list {sink}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", expected) and message in done.stderr
    assert done.stderr.count("\n") == expected and "Traceback" not in done.stderr
