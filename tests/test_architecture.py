"""What the design forbids: peeking attacks, imports against the order, global seeds, pickles from strangers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "recon"
ORDER = (
    *("errors", "results", "data", "networks", "descent", "training", "solution_set", "bilevel", "reconstruct"),
    *("metrics", "matching", "plots", "experiments", "stamps", "runner", "html", "publish", "cli"),
)
ATTACKS = ("descent", "training", "solution_set", "bilevel", "reconstruct", "stationarity")


def imports(path: Path, lazy: bool = True) -> set[str]:
    """First-level modules of `recon` that a file imports; without `lazy`, only at module level."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if lazy else tree.body
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "recon":
            parts = node.module.split(".")[1:]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("recon.")}
    return found - {"__version__"}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_do_not_peek(name):
    path = PACKAGE / f"{name}.py"
    if path.is_file():
        assert not imports(path) & {"data", "matching", "metrics", "experiments"}


def test_imports_point_one_way():
    files = [p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py"]
    for path in files:
        module = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for imported in imports(path, lazy=False) - {module}:
            assert ORDER.index(imported) < ORDER.index(module), f"{path.name} imports {imported}"
    assert {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in files} <= set(ORDER)


def test_no_global_seed_and_no_pickles():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("torch.manual_seed", "np.random.seed", "random.seed", "pickle.load"), path
                if called == "torch.load":
                    assert any(k.arg == "weights_only" for k in node.keywords), path
