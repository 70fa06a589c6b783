"""References that hold intervals, figures that come as numbers, stages that all run."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

from companion.chapters import ROOT
from tests import stages
from tests.bands import alike, merged, widened, widened_text, within
from tests.conftest import compared
from tests.drawn import drawn
from tests.stages import Stage, counted, run_all, table


def test_what_does_not_move_stays_and_what_moves_gets_its_band():
    texts = ["found 12 of 40, best 0.81 (loss -2e-12) in 3 s", "found 13 of 40, best 0.81 (loss 5e-12) in 3 s"]
    assert merged(texts) == "found 12±5 of 40, best 0.81 (loss ⋯) in ⋯ s"
    assert merged(["a 1\nb 2", "a 1\nc 2"]) == "a 1\n⋯" and merged(["a", "a\nb"]) == "⋯"
    assert merged(["12 of 40, NCC 0.81, 3072"] * 2, loose=True) == "12±2 of 40±2, NCC 0.81±0.0405, 3072"
    assert merged(["finding x is y\n| finding | kept, n = 5 |"], loose=True) == "⋯\n| finding | kept, n = 5±2 |"
    assert merged([text := "| x | 1,234 | 50% | ±W1 |"] * 2) == text


@pytest.mark.parametrize(
    ("reference", "yes", "no"),
    [
        ("12±5 of 40", ("12 of 40", "17 of 40", "7  of  40"), ("18 of 40", "12 of 41", "12 out of 40", "12", "")),
        ("NCC 0.81", ("NCC 0.81", "NCC 0.80"), ("NCC 0.83", "NCC 0.8x", "NCC")),
        ("error 2e-12", ("error 2e-12", "error 3e-12"), ("error 4e-12", "error 2e-11")),
        ("25% of 1,234", ("25% of 1,234", "26% of 1,234"), ("27% of 1,234", "25% of 1,235", "25 of 1,234")),
        ("loss ⋯, n = 3", ("loss -7, n = 3",), ("loss -7, n = 4", "loss, n = 3")),
        ("a\n⋯\nb 1", ("a\nwhatever\nb 1",), ("a\nwhatever", "a\nx\nb 2")),
        ("Read it: 3±5.", ("Read it: 8.",), ("Read it: 9.",)),
        ("left −0.50", ("left −0.51",), ("left 0.50",)),
    ],
)
def test_a_text_is_compared_within_its_bands(reference, yes, no):
    assert all(alike(reference, text) for text in yes) and not any(alike(reference, text) for text in no)


def test_nbval_compares_within_bands_and_sees_the_rest():
    def output(text, kind="text/plain"):
        shown = {"output_type": "display_data", "data": {kind: text}}
        return [*map(nbformat.from_dict, (shown, {"output_type": "stream", "name": "stdout", "text": text}))]

    def equal(test, ref):  # nbval's own
        return [each.output_type for each in test] and test == ref

    held = partial(compared, equal)
    assert held(output("n 12"), output("n 12±1")) and not held(output("n 14"), output("n 12±1"))
    assert not held(output("n 12")[:1], output("n 12")) and not held(output("n 12", "text/markdown"), output("n 12±1"))


def test_references_hold_no_pictures_and_compare_nearly_every_cell():
    files = sorted((ROOT / "tests" / "reference").glob("*.ipynb"))
    cells = [cell for file in files for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert kinds <= {"text/plain", "text/markdown"} and sum(file.stat().st_size for file in files) < 2e6
    assert not [cell for cell in cells if "nbval-ignore-output" in cell["metadata"].get("tags", [])]
    texts = ["".join(o.get("text", "") or "".join(map("".join, o.get("data", {}).values()))) for o in outputs]
    assert len(texts) > 120 and sum(text.strip() == "⋯" for text in texts) < 0.03 * len(texts)


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
    assert lines[1:3] == ["axes 1 | a finding: 3 of 4 | ours", "  line: 3, 3, 3.83"]
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
    assert "FAILED tests/a.py::b - why" in said and "do this" in said and "one [ 50%]" in said and "do that" not in said
    assert [stage.code for stage in ran] == [1, 0, 0] and table(ran).splitlines()[-1] == "11 passed, 1 failed"
    assert counted("== 2 errors, 1 passed in 3s ==") == {"error": 2, "passed": 1}
    assert Path(tmp_path, "one.log").read_text().startswith("xxxxxxxxx")


def test_a_band_is_widened_by_what_lies_outside_and_by_nothing_else():
    kept = {"a": [10.0, 1.0], "b": "x", "c[*]": [1.0, 1.0, 0.1, 0.1], "gone": [1.0, 0.1], "d": ["moves", 2.0]}
    assert widened(kept, {"a": 10.5, "b": "x", "c": [1.0, 1.0], "gone": 1.0, "d": 3.0})["a"] == kept["a"]
    found = widened(kept, {"a": 12.0, "b": "y", "c": [1.0, 1.4], "d": 300.0, "new": 3})
    assert found["a"] == [10.0, 10.0] and found["b"] == found["gone"] == found["new"] == "moves"
    assert found["c[*]"][:2] == [1.0, 1.0] and found["c[*]"][2] == pytest.approx(1.0)
    assert found["d"] == ["moves", 300.0]
    assert within(found["a"], [12.0]) and not within(kept["a"], [12.0])
    assert widened(kept, {"a": 40.0, "b": "x", "c": [1.0, 1.0], "gone": 1.0, "d": 1.0})["a"] == ["moves", 40.0]


def test_a_text_is_widened_number_by_number():
    assert widened_text("found 12±5 of 40", "found 16 of 40") == "found 12±5 of 40"
    assert widened_text("found 12±5 of 40", "found 19 of 41") == "found 12±35 of 40±5"
    assert widened_text("loss 2, 5%", "loss 7, 5%") == "loss ⋯, 5%"
    assert widened_text("a 1\nb 2", "a 1\nc 2") == "a 1\n⋯" and widened_text("a", "a\nb") == "⋯"
    for kept, text in (("n 12±5", "n 30"), ("x 0.81", "x 0.7"), ("a 1", "b 1")):
        assert alike(widened_text(kept, text), text)
