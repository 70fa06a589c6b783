"""Sweeps: the same results in this process and on its cores; a killed worker loses nothing."""

from __future__ import annotations

import pytest
import torch

from companion.store.sweep import sweep
from recon.errors import ReconError
from recon.store.tensors import save_tensors

NAMES = ["a", "b", "c", "d"]


def make_unit(folder=None):
    """A unit of work; with a folder, it notes who ran, and the first to run "b" is killed on the
    way.
    """

    def unit(name: str) -> dict:
        import os
        import signal

        import torch

        if folder is not None:
            with open(folder / f"ran-{name}", "a") as file:
                file.write("x")
            if name == "b" and not (folder / "killed").exists():
                (folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        x = torch.randn(50, 50, generator=torch.Generator().manual_seed(ord(name)))
        return {"x": x @ x, "threads": torch.tensor(torch.get_num_threads())}

    return unit


def equal(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[n]["x"], second[n]["x"]) for n in first
    )


@pytest.fixture(scope="module")
def serial(tmp_path_factory) -> dict:
    return sweep(make_unit(), NAMES, "sweep", tmp_path_factory.mktemp("serial"))


def test_every_run_computes_on_one_thread_and_in_order(serial):
    assert list(serial) == NAMES
    assert all(found["threads"] == 1 for found in serial.values())


def test_stored_runs_are_read_and_damaged_ones_done_again(tmp_path, serial):
    save_tensors({"x": torch.zeros(1)}, tmp_path / "sweep" / "a.safetensors")
    (tmp_path / "sweep" / "c.safetensors").write_bytes(b"damaged")
    found = sweep(make_unit(), NAMES, "sweep", tmp_path)
    assert torch.equal(found["a"]["x"], torch.zeros(1))
    assert equal({n: found[n] for n in "bcd"}, {n: serial[n] for n in "bcd"})


def test_a_killed_process_loses_what_was_under_way_and_no_more(tmp_path, serial):
    notes = tmp_path / "notes"
    notes.mkdir()
    with pytest.raises(ReconError, match=r"a worker died; \d of 4 runs are stored"):
        sweep(make_unit(notes), NAMES, "sweep", tmp_path / "out", workers=2)
    stored = [path.stem for path in (tmp_path / "out" / "sweep").glob("*.safetensors")]
    assert equal(sweep(make_unit(notes), NAMES, "sweep", tmp_path / "out", workers=2), serial)
    assert "b" not in stored and all((notes / f"ran-{name}").read_text() == "x" for name in stored)


def test_bad_input_is_one_sentence(tmp_path):
    with pytest.raises(ReconError, match="at least 1, not 0"):
        sweep(make_unit(), NAMES, "sweep", tmp_path, workers=0)
