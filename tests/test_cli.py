"""Exit codes, one-line errors, identical repeats, and a run that survives SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from recon import cli
from recon.experiments import registry


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nonsense"], "unknown experiment 'nonsense'"),
        (["run", "linear", "--data", "imagenet"], "unknown data source 'imagenet'"),
        (["run", "linear", "--device", "tpu", "--data", "photos"], "unknown device 'tpu'"),
        (["run", "linear", "--seed", "-1"], "must not be negative"),
        (["run", "linear", "--data-root", "/no/such folder"], "does not exist"),
        (["book", "--data-root", "/no/such folder"], "does not exist"),
        (["claims", "--out", "/no/such folder"], "there are no results"),
        (["run", "linear", "--data", "photos", "--out", "/dev/null/x"], "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, message, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and "Traceback" not in error


def test_gpu_that_is_not_there(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert cli.main(["run", "linear", "--device", "cuda", "--data", "photos"]) == 2
    assert "no usable GPU" in capsys.readouterr().err


def test_usage_errors_exit_with_2(capsys):
    for arguments in (["run"], ["run", "linear", "--profile", "huge"], ["fly"], []):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 2


def test_an_unexpected_failure_is_one_line_and_exit_code_1(monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr("recon.experiments.run", fail)
    assert cli.main(["run", "linear"]) == 1
    assert "RuntimeError: the disk is on fire" in capsys.readouterr().err


def test_list_names_everything(capsys):
    assert cli.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in registry())


def test_run_writes_the_contract_and_claims_reads_it(tmp_path, capsys):
    arguments = ["run", "bilevel-affine", "--profile", "smoke", "--data", "photos", "--device", "cpu"]
    assert cli.main([*arguments, "--out", str(tmp_path)]) == 0
    folder = tmp_path / "bilevel-affine"
    first = json.loads((folder / "result.json").read_text())
    keys = "experiment profile data seed device versions commit seconds metrics claims"
    assert set(keys.split()) <= set(first) and {"name", "sha256", "n"} <= set(first["data"])
    assert (folder / "arrays.safetensors").is_file() and list(folder.glob("*.png"))
    assert str(tmp_path) not in (folder / "result.json").read_text()
    stamp = (folder / "result.json").stat().st_mtime_ns
    assert cli.main([*arguments, "--out", str(tmp_path)]) == 0  # served from disk
    assert (folder / "result.json").stat().st_mtime_ns == stamp
    assert cli.main([*arguments, "--out", str(tmp_path / "again")]) == 0  # computed again
    assert json.loads((tmp_path / "again/bilevel-affine/result.json").read_text())["metrics"] == first["metrics"]
    capsys.readouterr()
    assert cli.main(["claims", "--json", "--out", str(tmp_path)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(first["claims"])


@pytest.mark.slow
def test_sigkill_and_again_gives_the_same_metrics(tmp_path):
    """Killed at three different moments, the run finishes with the metrics of one that nobody disturbed."""
    command = [sys.executable, "-m", "recon.cli", "run", "bilevel-affine", "--profile", "smoke", "--data", "photos"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start(out):
        return subprocess.Popen([*command, "--out", str(out)], env=environment, stderr=subprocess.PIPE, text=True)

    calm = tmp_path / "calm"
    process = start(calm)
    assert process.wait(120) == 0, process.stderr.read()
    for delay in (3.0, 5.0):
        process = start(tmp_path / "killed")
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = start(tmp_path / "killed")
    assert process.wait(120) == 0, process.stderr.read()
    one, other = (json.loads((f / "bilevel-affine/result.json").read_text()) for f in (calm, tmp_path / "killed"))
    assert one["metrics"] == other["metrics"]
