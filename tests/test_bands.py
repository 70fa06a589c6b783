"""References, figures that come as numbers, stages that all run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from companion.chapters import ROOT
from tests import stages
from tests.bands import widened, within
from tests.drawn import drawn
from tests.stages import Stage, counted, run_all, table


def test_references_hold_no_pictures_and_compare_nearly_every_cell():
    files = sorted((ROOT / "tests" / "reference").glob("*.ipynb"))
    cells = [
        cell
        for file in files
        for cell in json.loads(file.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    outputs = [output for cell in cells for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert (
        kinds <= {"text/plain", "text/markdown"}
        and sum(file.stat().st_size for file in files) < 2e6
    )
    assert not [cell for cell in cells if "nbval-ignore-output" in cell["metadata"].get("tags", [])]
    texts = [
        "".join(o.get("text", "") or "".join(map("".join, o.get("data", {}).values())))
        for o in outputs
    ]
    assert len([text for text in texts if text.strip()]) > 120


def test_a_figure_comes_as_words_and_numbers():
    figure, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2, 6], label="ours")
    left.set_title("a finding: 3 of 4")
    left.legend()
    right.imshow([[0.0, 1.0], [0.0, 1.0]])
    right.bar([0, 1], [2, 5])
    right.scatter([1, 2], [3, 4])
    lines = list(drawn(figure))
    plt.close(figure)
    assert lines[1:3] == ["axes 1 | a finding: N of N | ours", "  line: 3, 3, 3.83"]
    assert lines[4:] == ["  bars: 2, 3.5, 4", "  points: 4, 2.5, 2.9", "  image: 4, 0.5, 0.6"]


def test_a_table_s_stages_all_run_and_the_sum_is_last(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    bad = "print('x' * 9, '[ 50%]'); print('FAILED tests/a.py::b - why'); "
    bad += "print('1 failed, 3 passed, 2 skipped in 4s'); exit(1)"
    ran = [
        Stage("one", [sys.executable, "-c", bad], "do this"),
        Stage("two", [sys.executable, "-c", "print('7 passed in 1s')"], "do that"),
        Stage("three", [sys.executable, "-c", ""], "nothing"),
    ]
    run_all(ran)
    said = capsys.readouterr().out
    assert (
        "FAILED tests/a.py::b - why" in said
        and "do this" in said
        and "one [ 50%]" in said
        and "do that" not in said
    )
    assert [stage.code for stage in ran] == [1, 0, 0] and table(ran).splitlines()[
        -1
    ] == "11 passed, 1 failed"
    assert counted("== 2 errors, 1 passed in 3s ==") == {"error": 2, "passed": 1}
    assert Path(tmp_path, "one.log").read_text().startswith("xxxxxxxxx")


def test_a_band_is_widened_by_what_lies_outside_and_by_nothing_else():
    kept = {
        "a": [10.0, 1.0],
        "b": "x",
        "c[*]": [1.0, 1.0, 0.1, 0.1],
        "gone": [1.0, 0.1],
        "d": ["moves", 2.0],
    }
    assert (
        widened(kept, {"a": 10.5, "b": "x", "c": [1.0, 1.0], "gone": 1.0, "d": 3.0})["a"]
        == kept["a"]
    )
    found = widened(kept, {"a": 12.0, "b": "y", "c": [1.0, 1.4], "d": 300.0, "new": 3})
    assert found["a"] == [10.0, 10.0] and found["b"] == found["gone"] == found["new"] == "moves"
    assert found["c[*]"][:2] == [1.0, 1.0] and found["c[*]"][2] == pytest.approx(1.0)
    assert found["d"] == ["moves", 300.0]
    assert within(found["a"], [12.0]) and not within(kept["a"], [12.0])
    assert widened(kept, {"a": 40.0, "b": "x", "c": [1.0, 1.0], "gone": 1.0, "d": 1.0})["a"] == [
        "moves",
        40.0,
    ]
