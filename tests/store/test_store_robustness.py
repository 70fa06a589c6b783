"""What was done to results and checkpoints, and what has to come of it: see toys.py.

The tables say it all (READ, STORED, UNFINISHED, WRITES); below each is the one test that works
through it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from toys import (  # noqa: F401  (calm, stage and store are fixtures)
    ANY,
    FOLDER,
    JSON,
    NAME,
    RUN,
    TENSORS,
    Metrics,
    call,
    calm,
    contents,
    edit,
    fork,
    interrupt_at,
    play,
    refused,
    stage,
    store,
)

from recon.store.tensors import load_tensors

pytestmark = pytest.mark.slow

# ---------------------------------------------------------------------------------------- the store

#: damage to result.json: `claims` and `keep` say so, `run` computes again
READ = ANY | JSON | FOLDER
#: damage to either file of a stored result, of which `run` makes a correct one again; a folder it
#: leaves alone
STORED = [("result.json", how) for how in ANY | JSON] + [
    ("arrays.safetensors", how) for how in ANY | TENSORS
]


@pytest.mark.parametrize("how", READ)
def test_claims_and_keep_say_that_a_result_is_damaged(store, how):
    READ[how](store / NAME / "result.json")
    refused(("claims", "--out", str(store)), "damaged")
    refused(("keep", str(store / NAME)), "damaged")


@pytest.mark.parametrize(("name", "how"), STORED)
def test_a_damaged_result_is_computed_again(store, calm, name, how):
    (ANY | JSON | TENSORS)[how](store / NAME / name)
    assert call(*RUN, "--out", str(store))[0] == 0
    assert contents(store) == contents(calm)


# ---------------------------------------------------------------------------------- unfinished runs

#: damage to what an interrupted run goes on from: the result is that of an undisturbed run
UNFINISHED = [
    (name, how) for name in ("loop.safetensors", "sweep/a.safetensors") for how in ANY | TENSORS
]


@pytest.fixture
def unfinished(tmp_path, monkeypatch) -> Path:
    """The checkpoints of a run that was interrupted in step 4."""
    play(monkeypatch, interrupt_at(4))
    code, _, err = call(*RUN, "--out", str(tmp_path / "out"))
    assert code == 1 and "continues from the last checkpoint" in err
    play(monkeypatch)
    return next((tmp_path / "out" / NAME).glob("checkpoint-*"))


def test_killed_twice_in_the_middle_of_its_loop_a_run_goes_on_from_there(
    tmp_path, calm, monkeypatch
):
    """SIGKILL after step 2 and after step 4: each run takes the steps that are left, and the result
    is the calm one.
    """
    out, taken = tmp_path / "out", []
    for step, begins in ((2, 1), (4, 3)):

        def deadly(k: int, step: int = step, begins: int = begins) -> None:
            assert k >= begins, "a step was done again"
            if k == step + 1:  # the checkpoint of `step` is on disk, this one's is not
                os.kill(os.getpid(), signal.SIGKILL)

        play(monkeypatch, deadly)
        code = os.waitstatus_to_exitcode(
            os.waitpid(fork(lambda: call(*RUN, "--out", str(out))[0]), 0)[1]
        )
        assert code == -signal.SIGKILL and not (out / NAME / "result.json").exists()
        (checkpoint,) = (out / NAME).glob("checkpoint-*/loop.safetensors")
        assert len(load_tensors(checkpoint)["history"]) == step
    play(monkeypatch, taken.append)
    assert call(*RUN, "--out", str(out))[0] == 0
    assert taken == [5, 6] and contents(out) == contents(calm)


@pytest.mark.parametrize(("name", "how"), UNFINISHED)
def test_a_damaged_checkpoint_costs_time_and_nothing_else(unfinished, calm, name, how):
    (ANY | TENSORS)[how](unfinished / name)
    assert call(*RUN, "--out", str(unfinished.parents[1]))[0] == 0
    assert contents(unfinished.parents[1]) == contents(calm)


# --------------------------------------------------------------------------------------- full disks

#: (what fails, on files named so, with) while seed 1 is run where seed 0 is stored
WRITES = [
    (what, name, number)
    for what in ("tempfile.mkdtemp", "os.replace")
    for name in ("result.json", "arrays.safetensors", "loop.safetensors", "b.safetensors")
    for number in (errno.ENOSPC, errno.EROFS)
]


@pytest.mark.parametrize(("what", "name", "number"), WRITES)
def test_a_failing_disk_is_one_sentence_and_the_old_result_stays(
    store, calm, monkeypatch, what, name, number
):
    module = {"tempfile": tempfile, "os": os}[what.split(".")[0]]
    real = getattr(module, what.split(".")[1])

    def fail(*arguments, **keywords):
        target = arguments[1] if what == "tempfile.mkdtemp" else Path(arguments[-1]).name
        if name in target:
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


# ------------------------------------------------------------------------------- kills, two at once


@pytest.mark.parametrize("seed", [0, 1])
def test_a_second_run_in_the_same_folder_is_refused_and_the_first_is_right(
    tmp_path, calm, monkeypatch, seed
):
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
