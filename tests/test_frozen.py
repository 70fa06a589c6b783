"""Settings and results of the module are values: no dataclass can be changed after it was made."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "recon"
CHANGES = {("lbfgs.py", "Pairs"), ("trace.py", "Trace")}  # filled in place


def test_every_dataclass_is_frozen():
    thawed = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for decorator in getattr(node, "decorator_list", []):
                text = ast.unparse(decorator)
                if text.startswith("dataclass") and "frozen=True" not in text:
                    thawed.add((path.name, node.name))
    assert thawed == CHANGES
