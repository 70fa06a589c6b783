"""Exit codes, one-line errors, identical repeats of real experiments."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from companion.chapters import entries, replay
from companion.chapters.replay import Replay
from companion.chapters.run import run
from companion.store.results import as_json
from recon import cli

NAME = "bilevel-affine"
RUN = ("run", NAME, "--profile", "smoke", "--data", "photos", "--device", "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nonsense"], "unknown experiment 'nonsense'"),
        (["run", "linear", "--data", "imagenet"], "unknown data source 'imagenet'"),
        (["run", "linear", "--device", "tpu", "--data", "photos"], "unknown device 'tpu'"),
        (["run", "linear", "--seed", "-1"], "must not be negative"),
        (["book", "--data-root", "/no/such folder"], "does not exist"),
        (["claims", "--out", "/no/such folder"], "there are no results"),
        (["run", "linear", "--data", "photos", "--out", "/dev/null/x"], "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, message, capsys):
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "linear", "--profile", "huge"], ["fly"], []]
)
def test_usage_errors_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt(), "continues from the last checkpoint"),
        (RuntimeError("the disk\nis on fire"), "RuntimeError: the disk is on fire"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(monkeypatch, capsys, error, message):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("companion.chapters.run.run", fail)
    assert cli.main(["run", "linear"]) == 1
    line = capsys.readouterr().err
    assert message in line and line.count("\n") == 1


def test_list_names_everything(capsys):
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(entries())
    for column in ("chapter", "summary"):  # begins at one place in every line
        pairs = zip(lines, entries().values(), strict=True)
        assert len({line.index(getattr(entry, column)) for line, entry in pairs}) == 1


def test_list_names_what_uses_a_function(capsys):
    assert cli.main(["list", "--uses", "recon.attacks.by_cosine_tv"]) == 0
    assert capsys.readouterr().out.startswith("leakage-weights  11-leakage-attacks  ")
    assert cli.main(["list", "--uses", "recon.cli.main"]) == 0
    assert capsys.readouterr().out == "no experiment uses recon.cli.main\n"


def test_a_replay_that_is_out_of_time_says_so(monkeypatch, capsys):
    late = Replay("linear", 0, "abc1234", "nothing", agrees=False, largest=0.0, differences=())
    monkeypatch.setattr(replay, "replay", lambda *_: late)
    assert cli.main(["replay", "linear", "--seconds", "8"]) == 0
    line, *_ = capsys.readouterr().out.splitlines()
    assert " ".join(line.split()) == "linear seed 0 kept at abc1234 nothing was done in time"


def metrics_of(result):
    return json.loads(as_json(result))["metrics"]


def read_result(out):
    return json.loads((out / NAME / "result.json").read_text())


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Results of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("calm")
    assert cli.main([*RUN, "--out", str(out)]) == 0
    return out


def test_run_writes_the_contract_and_claims_reads_it(calm, capsys):
    folder, result = calm / NAME, read_result(calm)
    keys = "experiment profile data seed device versions commit seconds metrics claims"
    assert set(keys.split()) <= set(result) and {"name", "sha256", "n"} <= set(result["data"])
    assert (folder / "arrays.safetensors").is_file() and list(folder.glob("*.png"))
    # nothing left lying about
    assert not list(folder.glob("checkpoint-*")) and not list(folder.glob(".*"))
    assert str(calm) not in (folder / "result.json").read_text()
    capsys.readouterr()
    assert cli.main(["claims", "--json", "--out", str(calm)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(result["claims"])


def test_same_seed_computed_again_gives_identical_metrics(calm, tmp_path):
    again = run(NAME, "smoke", "photos", "cpu", out=tmp_path)
    assert metrics_of(again) == read_result(calm)["metrics"]


def test_module_runs_as_a_program_without_a_traceback(tmp_path):
    command = [sys.executable, "-m", "recon.cli", "claims", "--out", str(tmp_path / "empty ü")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("recon: there are no results")
