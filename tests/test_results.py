"""Results on disk: round trip, keys, damage, atomicity."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from recon import results
from recon.errors import ReconError
from recon.experiments import registry
from recon.results import Claim, Result, find_result, load_result, result_key, save_result


def example(key="k"):
    claim = Claim("a", "4.3", "A sentence.", "1", "2", "3", "reproduced")
    arrays = {"x": torch.arange(6.0).reshape(2, 3), "index": torch.tensor([3, 1])}
    return Result("toy", "smoke", {"n": 2}, 0, "cpu", {}, "abc", 1.5, {"m": 0.1}, [claim], key, {"n": 2}, arrays)


def test_round_trip(tmp_path):
    save_result(example(), tmp_path)
    back = load_result(tmp_path)
    assert {k: v for k, v in vars(back).items() if k != "arrays"} == {
        k: v for k, v in vars(example()).items() if k != "arrays"
    }
    assert all(torch.equal(back.array(name), array) for name, array in example().arrays.items())
    with pytest.raises(KeyError, match="only index, x"):
        back.array("y")


@pytest.mark.parametrize("name", list(registry()))
def test_key_changes_with_every_field(name):
    config = registry()[name].configs["smoke"]
    keys = {result_key(name, config, 0, "cpu", "d")}
    variants = 1
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        changed = (*value, 0.5) if isinstance(value, tuple) else value + 1
        keys.add(result_key(name, dataclasses.replace(config, **{field.name: changed}), 0, "cpu", "d"))
        variants += 1
    keys |= {result_key(name, config, 1, "cpu", "d"), result_key(name, config, 0, "cuda", "d")}
    keys |= {result_key(name, config, 0, "cpu", "e"), result_key("x", config, 0, "cpu", "d")}
    assert len(keys) == variants + 4


def test_source_hash_sees_code_and_not_comments():
    code = results._code_only
    assert code('def f(x):\n    """Doc."""\n    return x  # why\n') == code("def f(x):\n    return x\n")
    assert code("def f(x):\n    return x\n") != code("def f(x):\n    return -x\n")


def test_damage_is_noticed_and_computed_again(tmp_path):
    for name, spoil in {
        "result.json": lambda b: b[: len(b) // 2],
        "arrays.safetensors": lambda b: b"\xff" * 8 + b[8:],
    }.items():
        save_result(example(), tmp_path)
        assert find_result(tmp_path, "k") is not None and find_result(tmp_path, "other") is None
        path = tmp_path / name
        path.write_bytes(spoil(path.read_bytes()))
        assert find_result(tmp_path, "k") is None
        with pytest.raises(ReconError, match="damaged"):
            load_result(tmp_path)
    with pytest.raises(ReconError, match="there is no result"):
        load_result(tmp_path / "nowhere")


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), results.atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_verdicts_are_limited():
    with pytest.raises(ValueError, match="verdict"):
        Claim("a", "", "", "", "", "", "probably")
