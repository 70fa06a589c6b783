"""What the design forbids, read off the folders: imports against the order, peeking attacks,
circles, global seeds, pickles from strangers, dataclasses that change. Lazy imports count like all
others.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: folders and single modules of the two packages, each allowed to import those before it
ORDER = [
    f"{package}.{name}"
    for package, names in (
        ("recon", "errors store images nets released optim training attacks scoring analysis cli"),
        ("companion", "store chapters press cli"),
    )
    for name in names.split()
]
TRUTH = {"recon.images", "recon.scoring"}  # what no attack sees
FORBIDDEN = {
    "torch.manual_seed",
    "torch.seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.random.manual_seed",
    "np.random.seed",
    "random.seed",
    "pickle.load",
    "pickle.loads",
}
DRAWS = {
    "torch.rand",
    "torch.randn",
    "torch.randint",
    "torch.randperm",
    "torch.normal",
    "torch.bernoulli",
    "torch.multinomial",
}
Graph = dict[str, set[str]]


def sources(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


@cache
def graph() -> Graph:
    """Module -> modules of the packages that it imports anywhere; a folder's name, and a package's,
    is its own.
    """
    files = {}
    for path in sources(ROOT / "recon", ROOT / "companion"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        files[name.removesuffix(".__init__")] = path
    return {name: imports(path, set(files)) for name, path in files.items() if "." in name}


def imports(path: Path, modules: set[str]) -> set[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: relative imports hide from this test"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {
        module
        for name in names
        for module in [name if name in modules else name.rpartition(".")[0]]
        if module in modules
    }


def place(module: str) -> str:
    return ".".join(module.split(".")[:2])


def rank(module: str) -> int:
    """A package's own names are for its command line, and for readers."""
    return ORDER.index(place(module) if "." in module else f"{module}.cli")


def unnamed() -> set[str]:
    """Folders and modules that ORDER does not name, and names in it that are nothing."""
    return {place(module) for module in graph()} ^ set(ORDER)


def backwards() -> set[str]:
    """Imports that do not point to an earlier folder or stay in their own."""
    return {
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if rank(other) > rank(module)
    }


def reachable(module: str, edges: Graph) -> set[str]:
    reached: set[str] = set()
    todo = set(edges[module])
    while todo:
        other = todo.pop()
        reached.add(other)
        todo |= edges.get(other, set()) - reached
    return reached


def peeking() -> set[str]:
    """Attacks from which images or scores can be reached, directly or through others."""
    edges = graph()
    attacks = [module for module in edges if place(module) == "recon.attacks"]
    return {
        f"{module} reaches {place(other)}"
        for module in attacks
        for other in reachable(module, edges)
        if place(other) in TRUTH
    }


def circles() -> set[str]:
    edges = graph()
    return {module for module in edges if module in reachable(module, edges)}


def between_chapters() -> set[str]:
    """Imports from one chapter's folder into another's."""
    folders = {path.name for path in (ROOT / "companion" / "chapters").iterdir() if path.is_dir()}

    def chapter(module: str) -> str:
        inside = module.removeprefix("companion.chapters.").split(".")[0]
        return inside if inside in folders else ""

    return {
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if chapter(module) and chapter(other) and chapter(module) != chapter(other)
    }


def audit_needs_companion() -> set[str]:
    """The audit knows `recon` alone."""
    companion = {module for module in graph() if module.startswith("companion")}
    return {
        f"{path.stem} imports {other}"
        for path in sources(ROOT / "recon-audit" / "recon_audit")
        for other in imports(path, companion)
    }


RULES = (unnamed, backwards, peeking, circles, between_chapters, audit_needs_companion)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule):
    assert not rule()


# ----------------------------------------------------------------------------- seeds and pickles


def unsafe(path: Path) -> list[str]:
    """Calls that seed or draw from a global generator, or unpickle."""
    calls = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            unpickles = name == "torch.load" and keywords.get("weights_only") != "True"
            draws = name in DRAWS and "generator" not in keywords
            if name in FORBIDDEN or unpickles or draws or keywords.get("allow_pickle") == "True":
                calls.append(f"{path.name}: {ast.unparse(node)}")
    return calls


def test_no_global_seed_and_no_pickles():
    files = sources(ROOT / "recon", ROOT / "companion", ROOT / "recon-audit" / "recon_audit")
    assert len(files) > 100 and [call for path in files for call in unsafe(path)] == []


# ------------------------------------------------------------------------------------- values


def test_settings_and_results_are_values_that_nobody_changes():
    """But for two that are filled in place."""
    thawed = set()
    for path in sources(ROOT / "recon"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for decorator in getattr(node, "decorator_list", []):
                text = ast.unparse(decorator)
                if text.startswith("dataclass") and "frozen=True" not in text:
                    thawed.add(node.name)
    assert thawed == {"Pairs", "Trace"}
