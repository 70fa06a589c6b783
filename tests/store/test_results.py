"""Results on disk: round trip, keys, damage, atomicity."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch

from companion.chapters import ROOT, load, registry
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
    del meta["sha256"], meta["metrics"]["objective_true"]
    (tmp_path / "result.json").write_text(json.dumps(meta))
    with pytest.raises(
        ReconError, match="collapse is of another version: .*objective_true.*; run it again"
    ) as caught:
        load(tmp_path, arrays=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", list(registry()))
def test_key_changes_with_every_field(name):
    config = registry()[name].sizes["smoke"]
    keys = {result_key(name, 1, config, 0, "cpu", "d")}
    variants = 1
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            inner = next(
                f.name
                for f in dataclasses.fields(value)
                if isinstance(getattr(value, f.name), int | float)
            )
            changed = dataclasses.replace(value, **{inner: getattr(value, inner) + 2})
        elif isinstance(value, dict):
            changed = {**value, "more": 1}
        elif value is None or isinstance(value, bool):
            changed = 1.5
        else:
            changed = (
                (*value, 0.5)
                if isinstance(value, tuple)
                else value + (" " if isinstance(value, str) else 1)
            )
        keys.add(
            result_key(name, 1, dataclasses.replace(config, **{field.name: changed}), 0, "cpu", "d")
        )
        variants += 1
    keys |= {
        result_key(name, 1, config, 1, "cpu", "d"),
        result_key(name, 1, config, 0, "cuda", "d"),
    }
    keys |= {result_key(name, 1, config, 0, "cpu", "e"), result_key("x", 1, config, 0, "cpu", "d")}
    keys.add(result_key(name, 2, config, 0, "cpu", "d"))
    assert len(keys) == variants + 5
    assert result_key(name, 1, config, 0, "cuda:0", "d") == result_key(
        name, 1, config, 0, "cuda:1", "d"
    )


def test_damage_is_noticed_and_computed_again(tmp_path):
    for name, spoil in {
        "result.json": lambda b: b[: len(b) // 2],
        "arrays.safetensors": lambda b: b"\xff" * 8 + b[8:],
    }.items():
        save_result(example(), tmp_path)
        assert find(tmp_path, "k") is not None and find(tmp_path, "other") is None
        path = tmp_path / name
        path.write_bytes(spoil(path.read_bytes()))
        assert find(tmp_path, "k") is None
        with pytest.raises(ReconError, match="damaged"):
            read(tmp_path)
    with pytest.raises(ReconError, match="there is no result"):
        read(tmp_path / "nowhere")


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), results.atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_verdicts_are_limited():
    with pytest.raises(ValueError, match="verdict"):
        Claim("a", sentence="", ours="", verdict="probably")


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


def test_killed_while_writing_arrays_leaves_the_old_result(tmp_path, monkeypatch):
    save_result(example("k"), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tensors_on_disk.safetensors.torch, "save_file", interrupt)
        save_result(other_example(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def interrupt(*_, **__):
    raise KeyboardInterrupt


def flip(position):
    return lambda b: b[:position] + bytes([b[position] ^ 4]) + b[position + 1 :]


@pytest.mark.parametrize("name", ["result.json", "arrays.safetensors"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: b"",
        lambda b: b[:7],
        lambda b: b[:-3],
        flip(0),
        flip(9),  # in the header's first tensor name, or the first field's name
        lambda b: b"[]",
        lambda b: b"\xff\xfe\x00",
    ],
    ids=["empty", "beginning", "cut", "first byte", "name", "other json", "binary"],
)
def test_every_damage_is_one_sentence(tmp_path, name, spoil):
    save_result(example(), tmp_path)
    path = tmp_path / name
    path.write_bytes(spoil(path.read_bytes()))
    assert find(tmp_path, "k") is None
    with pytest.raises(ReconError) as caught:
        read(tmp_path)
    assert "damaged" in str(caught.value) and "\n" not in str(caught.value)


def test_flipped_pixel_is_noticed(tmp_path):
    save_result(example(), tmp_path)
    path = tmp_path / "arrays.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 4]))
    with pytest.raises(ReconError, match="damaged: its checksum"):
        read(tmp_path)


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


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert find(tmp_path / "file", "k") is None
    with pytest.raises(ReconError, match="cannot be written") as caught:
        save_result(example(), tmp_path / "file")
    assert "\n" not in str(caught.value)


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
