"""Sweeps: what is stored is read, and a killed sweep loses what was under way and no more."""

from __future__ import annotations

import pytest
import torch

from companion.store.sweep import sweep
from recon.store.tensors import save_tensors

NAMES = ["b", "a", "c", "d"]


class Unit:
    """A unit of work, which notes who ran, and is interrupted at one of them."""

    def __init__(self, interrupted: str = ""):
        self.interrupted, self.ran = interrupted, []

    def __call__(self, name: str) -> dict[str, torch.Tensor]:
        self.ran.append(name)
        if name == self.interrupted:
            raise KeyboardInterrupt
        x = torch.randn(50, 50, generator=torch.Generator().manual_seed(ord(name)))
        return {"x": x @ x, "threads": torch.tensor(torch.get_num_threads())}


def test_every_run_computes_on_one_thread_and_in_order(tmp_path):
    found = sweep(Unit(), NAMES, "sweep", tmp_path)
    assert list(found) == NAMES and all(run["threads"] == 1 for run in found.values())


def test_several_processes_give_what_one_gives(tmp_path):
    calm, found = (sweep(Unit(), NAMES, "sweep", tmp_path / str(k), k) for k in (1, 2))
    assert all(torch.equal(found[name]["x"], calm[name]["x"]) for name in NAMES)


def test_stored_runs_are_read_and_damaged_ones_done_again(tmp_path):
    calm = sweep(Unit(), NAMES, "sweep", tmp_path)
    save_tensors({"x": torch.zeros(1)}, tmp_path / "sweep" / "a.safetensors")
    (tmp_path / "sweep" / "c.safetensors").write_bytes(b"damaged")
    again = Unit()
    found = sweep(again, NAMES, "sweep", tmp_path)
    assert torch.equal(found["a"]["x"], torch.zeros(1)) and again.ran == ["c"]
    assert all(torch.equal(found[name]["x"], calm[name]["x"]) for name in "bcd")


def test_an_interrupted_sweep_goes_on_from_what_is_stored(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sweep(Unit("c"), NAMES, "sweep", tmp_path)
    again = Unit()
    sweep(again, NAMES, "sweep", tmp_path)
    assert again.ran == ["c", "d"]
