"""Exit codes, one-line errors, identical repeats."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
import torch

from companion.chapters import registry
from companion.chapters.run import run
from companion.store.results import as_json
from recon import cli
from recon.images.cifar import SUBSET_FILE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nonsense"], "unknown experiment 'nonsense'"),
        (["run", "linear", "--data", "imagenet"], "unknown data source 'imagenet'"),
        (["run", "linear", "--device", "tpu", "--data", "photos"], "unknown device 'tpu'"),
        (["run", "linear", "--seed", "-1"], "must not be negative"),
        (["run", "linear", "--seed", str(2**64)], "2^62 or more"),
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
        assert "Traceback" not in capsys.readouterr().err


def test_keyboard_interrupt_is_one_line_and_exit_code_1(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("companion.chapters.run.run", interrupted)
    assert cli.main(["run", "linear"]) == 1
    assert "goes on from the last checkpoint" in capsys.readouterr().err


def test_missing_or_junk_recon_data_is_never_replaced_silently(monkeypatch, capsys, tmp_path):
    (tmp_path / SUBSET_FILE).write_bytes(b"\x00\xff" * 99)
    for where, message in (
        (tmp_path / "no ü", "does not exist"),
        (tmp_path, "damaged or is another file"),
    ):
        monkeypatch.setenv("RECON_DATA", str(where))
        for source in ("auto", "cifar10"):
            assert (
                cli.main(["run", "linear", "--data", source, "--out", str(tmp_path / "out")]) == 2
            )
            error = capsys.readouterr().err
            assert message in error and error.count("\n") == 1


def test_an_unexpected_failure_is_one_line_and_exit_code_1(monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr("companion.chapters.run.run", fail)
    assert cli.main(["run", "linear"]) == 1
    assert "RuntimeError: the disk is on fire" in capsys.readouterr().err


def test_list_names_everything(capsys):
    assert cli.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()] == list(registry())
    assert {"linear", "collapse", "bilevel-affine", "bilevel-hidden"} <= set(registry())
    assert all(profile in line for line in listed.splitlines() for profile in cli.PROFILES)


RUN = ("run", "bilevel-affine", "--profile", "smoke", "--data", "photos", "--device", "cpu")
CHAPTER = "bilevel-affine"


def as_dict(result):
    return json.loads(as_json(result))["metrics"]


def text_of(out):
    return json.loads((out / CHAPTER / "result.json").read_text())


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Results of a run that nobody disturbed."""
    out = tmp_path_factory.mktemp("calm")
    assert cli.main([*RUN, "--out", str(out)]) == 0
    return out


def test_run_writes_the_contract_and_claims_reads_it(calm, capsys):
    folder, found = calm / CHAPTER, text_of(calm)
    keys = "experiment profile data seed device versions commit seconds metrics claims"
    assert set(keys.split()) <= set(found) and {"name", "sha256", "n"} <= set(found["data"])
    assert (folder / "arrays.safetensors").is_file() and list(folder.glob("*.png"))
    # nothing left lying about
    assert not list(folder.glob("checkpoint-*")) and not list(folder.glob(".*"))
    assert str(calm) not in (folder / "result.json").read_text()
    capsys.readouterr()
    assert cli.main(["claims", "--json", "--out", str(calm)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(found["claims"])


def test_second_run_is_served_from_disk(calm, monkeypatch):
    before = (calm / CHAPTER / "result.json").stat().st_mtime_ns
    chosen = registry()[CHAPTER]

    def again(*_):
        pytest.fail("computed again")

    # the same code to the key
    again.__module__, again.__name__ = chosen.compute.__module__, chosen.compute.__name__
    again.__qualname__ = chosen.compute.__qualname__
    computed = dataclasses.replace(chosen, compute=again)
    monkeypatch.setattr("companion.chapters.registry", lambda: {CHAPTER: computed})
    found = run(CHAPTER, "smoke", "photos", "cpu", out=calm)
    assert as_dict(found) == text_of(calm)["metrics"]
    assert (calm / CHAPTER / "result.json").stat().st_mtime_ns == before
    # another seed is another result
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        run(CHAPTER, "smoke", "photos", "cpu", seed=1, out=calm)


def test_same_seed_computed_again_gives_identical_metrics(calm, tmp_path):
    again = run(CHAPTER, "smoke", "photos", "cpu", out=tmp_path)
    assert as_dict(again) == text_of(calm)["metrics"]


def test_damaged_result_is_computed_again_and_claims_says_so(calm, tmp_path, capsys):
    (tmp_path / CHAPTER).mkdir()
    (tmp_path / CHAPTER / "result.json").write_bytes(
        (calm / CHAPTER / "result.json").read_bytes()[:-20]
    )
    assert cli.main(["claims", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "damaged" in error and error.count("\n") == 1


def test_module_runs_as_a_program_without_a_traceback(tmp_path):
    command = [sys.executable, "-m", "recon.cli", "claims", "--out", str(tmp_path / "empty ü")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("recon: there are no results")
