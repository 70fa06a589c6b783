"""Results on disk: round trip, keys, damage, atomicity."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch

from companion.chapters import ROOT, load
from companion.store import results
from companion.store.record import Record, record
from companion.store.results import (
    Claim,
    Data,
    Provenance,
    Result,
    find_result,
    load_result,
    result_key,
    save_result,
)
from recon.errors import ReconError
from recon.store import tensors as tensors_on_disk
from recon.store.tensors import load_tensors, save_tensors


class Metrics(Record):
    """m, whole, pair, score."""


def example(key="k"):
    claim = Claim(
        "a",
        section="4.3",
        sentence="A sentence.",
        paper="1",
        ours="2",
        null="3",
        verdict="reproduced",
    )
    arrays = {"x": torch.arange(6.0).reshape(2, 3), "index": torch.tensor([3, 1])}
    made = Provenance(
        "toy", "smoke", Data("photos", "d", 2), 0, "cpu", {}, "abc", 1.5, key, {"n": 2}, [claim]
    )
    return Result(
        Metrics(record({"m": 0.1, "pair": (1, 2), "score": {"ncc_0.6": 3, "by_n": {10: 0.5}}})),
        arrays,
        made,
    )


def read(folder, arrays=True):
    return load_result(folder, Metrics, arrays)


def find(folder, key):
    return find_result(folder, key, Metrics)


def test_round_trip(tmp_path):
    save_result(example(), tmp_path)
    back = read(tmp_path)
    assert (back.metrics, back.made) == (example().metrics, example().made)
    assert all(torch.equal(back.array(name), array) for name, array in example().arrays.items())
    with pytest.raises(KeyError):
        back.array("y")
    assert json.loads((tmp_path / "result.json").read_text())["metrics"]["score"]["ncc_0.6"] == 3


def test_a_result_of_another_version_says_what_it_lacks(tmp_path):
    """Its metrics are a record: what a claim asks for and does not find is said in one sentence."""
    kept = ROOT / "book" / "paper-size" / "collapse"
    meta = json.loads((kept / "result.json").read_text())
    del meta["metrics"]["objective_true"]
    (tmp_path / "result.json").write_text(json.dumps(meta))
    with pytest.raises(
        ReconError, match="collapse is of another version, run it again: .*objective_true"
    ) as caught:
        load(tmp_path, arrays=False)
    assert "\n" not in str(caught.value)


@dataclasses.dataclass(frozen=True)
class Attack:
    steps: int = 3


@dataclasses.dataclass(frozen=True)
class Sizes:
    n: int = 1
    names: tuple[str, ...] = ("a",)
    attack: Attack = Attack()


def test_key_changes_with_everything_that_a_result_depends_on():
    start = ("linear", 1, Sizes(), 0, "cpu", "d")
    changes = {
        0: ["collapse"],
        1: [2],
        2: [Sizes(n=2), Sizes(names=("a", "b")), Sizes(attack=Attack(4))],
        3: [1],
        4: ["cuda"],
        5: ["e"],
    }
    keys = [result_key(*start)]
    for place, values in changes.items():
        keys += [result_key(*start[:place], value, *start[place + 1 :]) for value in values]
    assert len(set(keys)) == len(keys) == 9
    assert result_key(*start[:4], "cuda:0", "d") == result_key(*start[:4], "cuda:1", "d")


def other_example():
    return dataclasses.replace(
        example("other"), arrays={"x": torch.full((2, 3), -1.0), "index": torch.tensor([0, 0])}
    )


def test_killed_between_arrays_and_json_mixes_no_two_runs(tmp_path, monkeypatch):
    save_result(example("k"), tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(results.json, "dumps", interrupt)
        save_result(other_example(), tmp_path)
    # nothing was in place yet
    assert torch.equal(find(tmp_path, "k").array("x"), example().arrays["x"])
    replace = os.replace
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            os, "replace", lambda a, b: interrupt() if b.name == "result.json" else replace(a, b)
        )
        save_result(other_example(), tmp_path)
    # the old text is whole, but its arrays are gone:
    assert read(tmp_path, arrays=False).made.key == "k"
    assert find(tmp_path, "k") is None and find(tmp_path, "other") is None
    with pytest.raises(ReconError, match="belongs to another run"):
        read(tmp_path)
    save_result(other_example(), tmp_path)
    assert torch.equal(find(tmp_path, "other").array("x"), other_example().arrays["x"])


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_impossible_verdict_and_missing_arrays_are_damage(tmp_path):
    save_result(example(), tmp_path)
    path = tmp_path / "result.json"
    whole = path.read_text()
    path.write_text(whole.replace('"reproduced"', '"probably"'))
    with pytest.raises(ReconError, match="damaged"):
        read(tmp_path)
    path.write_text(whole)
    (tmp_path / "arrays.safetensors").unlink()
    assert find(tmp_path, "k") is None
    assert read(tmp_path, arrays=False).arrays == {}  # as in the published edition


def test_loaded_tensors_are_aligned_like_computed_ones(tmp_path):
    """Otherwise vectorised sums round differently, and a resumed run is not the uninterrupted one
    to the last bit.
    """
    tensors = {
        name: torch.rand(n, dtype=torch.float64)
        for n, name in zip((1, 3, 5, 7, 100), "abcde", strict=True)
    }
    save_tensors(tensors, tmp_path / "t")
    assert all(tensor.data_ptr() % 64 == 0 for tensor in load_tensors(tmp_path / "t").values())


def test_reading_while_another_process_replaces_the_file_is_no_damage(tmp_path, monkeypatch):
    """A checkpoint is replaced every few seconds; who looks at it meanwhile sees one version or the
    other, whole.
    """
    path, real = tmp_path / "state.safetensors", tensors_on_disk.safetensors.safe_open
    save_tensors({"x": torch.zeros(10)}, path)

    def opened_and_replaced(*arguments):
        file = real(*arguments)
        save_tensors({"x": torch.ones(10)}, path)
        return file

    monkeypatch.setattr(tensors_on_disk.safetensors, "safe_open", opened_and_replaced)
    assert (load_tensors(path)["x"] == 0).all()
    monkeypatch.undo()
    assert (load_tensors(path)["x"] == 1).all()
