"""References that nbval compares nearly every cell of, and stages that all run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests import stages
from tests.stages import Stage, run_all, table

ROOT = Path(__file__).resolve().parents[1]


def test_references_hold_no_pictures_and_compare_nearly_every_cell():
    cells = [
        cell
        for file in sorted((ROOT / "tests" / "reference").glob("*.ipynb"))
        for cell in json.loads(file.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    outputs = [output for cell in cells for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert kinds <= {"text/plain", "text/markdown"} and len(outputs) > 80
    assert not [cell for cell in cells if "nbval-ignore-output" in cell["metadata"].get("tags", [])]


def test_stages_all_run_and_the_sum_of_their_tests_is_last(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    bad = "print('x [ 50%]'); print('FAILED tests/a.py::b - why'); "
    bad += "print('1 failed, 3 passed, 2 skipped, 1 error in 4s'); exit(1)"
    chosen = [
        Stage("one", [sys.executable, "-c", bad], "do this"),
        Stage("two", [sys.executable, "-c", "print('7 passed in 1s')"], "do that"),
        Stage("three", [sys.executable, "-c", ""], "nothing"),
    ]
    run_all(chosen)
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("FAILED tests/a.py::b", "do this", "one [ 50%]"))
    assert "do that" not in printed
    assert [stage.code for stage in chosen] == [1, 0, 0]
    assert table(chosen).splitlines()[-1] == "11 passed, 2 failed"
