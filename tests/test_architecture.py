"""What the design forbids: peeking attacks, imports against the order, global seeds, pickles from strangers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "recon"
ORDER = (
    *("errors", "files", "results", "ledger", "sweep", "sources", "data", "photographs", "networks"),
    *("descent", "loop", "training", "recipes", "solution_set"),
    *("spectrum", "separation", "certainty"),
    *("bilevel", "reconstruct", "stationarity", "kkt", "decoreco", "recover", "reference", "evidence", "landscape"),
    *("leakage", "metrics"),
    *(
        "matching",
        "nulls",
        "plots",
        "experiments",
        "audit_inputs",
        "audit_attacks",
        "audit_scoring",
        "audit",
        "stamps",
        "runner",
        "pages",
        "html",
        "publish",
    ),
    *("cli",),
)
FORBIDDEN = {
    *("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"),
    *("torch.random.manual_seed", "np.random.seed", "random.seed", "pickle.load", "pickle.loads"),
}
DRAWS = {f"torch.{name}" for name in ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial")}
ATTACKS = (
    *("descent", "loop", "training", "solution_set", "bilevel", "reconstruct", "stationarity", "kkt"),
    *("decoreco", "recover", "reference", "evidence", "landscape", "audit_attacks"),
    *("spectrum", "separation", "certainty"),
    *("leakage/leak", "leakage/rgap", "leakage/gradient_matching", "leakage/operators", "leakage/networks"),
)


def imports(path: Path, lazy: bool = True) -> set[str]:
    """First-level modules of `recon` that a file imports; without `lazy`, only at module level."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if lazy else tree.body
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path.name}: relative imports hide from this test")
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


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_do_not_peek_through_others(name):
    """Nor do the modules that an attack imports, directly or not."""
    seen, todo = set(), {name}
    while todo:
        module = todo.pop()
        seen.add(module)
        path = PACKAGE / f"{module}.py"
        todo |= imports(path) - seen if path.is_file() else set()
    assert not seen & {"data", "matching", "metrics", "experiments", "plots"}, seen


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from recon import data", {"data"}),
        ("from recon.chapters.pictures import f", {"plots"}),
        ("import recon.scoring.metrics as m", {"metrics"}),
        ("def f():\n    from recon.scoring.matching import nearest", {"matching"}),
        ("import torch\nfrom recon import __version__", set()),
    ],
)
def test_this_file_sees_imports(source, found, tmp_path):
    (tmp_path / "a.py").write_text(source)
    assert imports(tmp_path / "a.py") == found
    with pytest.raises(AssertionError, match="relative"):
        (tmp_path / "a.py").write_text("from .data import load")
        imports(tmp_path / "a.py")


def test_imports_point_one_way():
    files = [p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py"]
    assert len(files) > 15
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
                assert called not in FORBIDDEN, f"{path}: {called}"
                keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
                if called == "torch.load":
                    assert keywords.get("weights_only") == "True", path
                if called in DRAWS:
                    assert "generator" in keywords, f"{path}: {ast.unparse(node)} draws from the global generator"
                assert keywords.get("allow_pickle") != "True", path
