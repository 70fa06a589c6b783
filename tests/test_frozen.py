"""Settings and results of the module are values: no dataclass can be changed after it was made."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "recon"
CHANGES = {("lbfgs.py", "Pairs"), ("trace.py", "Trace")}  # filled in place


def thawed(path: Path) -> list[tuple[str, str]]:
    """(file, class) of dataclasses that are not frozen."""
    classes = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    decorated = [
        (each.name, ast.unparse(decorator)) for each in classes for decorator in each.decorator_list
    ]
    return [
        (path.name, name)
        for name, said in decorated
        if said.startswith("dataclass") and "frozen=True" not in said
    ]


def test_every_dataclass_is_frozen():
    assert {each for path in PACKAGE.rglob("*.py") for each in thawed(path)} == CHANGES


@pytest.mark.parametrize(
    "decorator", ["dataclass", "dataclass(frozen=False)", "dataclass(kw_only=True)"]
)
def test_one_that_is_not_is_seen(decorator, tmp_path):
    (tmp_path / "a.py").write_text(f"@{decorator}\nclass A:\n    x: int\n")
    assert thawed(tmp_path / "a.py") == [("a.py", "A")]
