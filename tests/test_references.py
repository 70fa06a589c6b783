"""References that nbval compares nearly every cell of."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert kinds <= {"text/plain", "text/markdown"} and len(outputs) > 60
    assert not [cell for cell in cells if "nbval-ignore-output" in cell["metadata"].get("tags", [])]
