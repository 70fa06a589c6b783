"""What the design forbids, read off the folders: imports against the order, peeking attacks, circles, global seeds,
pickles from strangers.  Lazy imports count like all others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "recon"
#: folders and single modules of the package, each allowed to import those before it
ORDER = (
    *("errors", "images", "nets", "released", "optim", "training", "attacks", "scoring", "analysis"),
    *("store", "chapters", "auditing", "press", "cli"),
)
TRUTH = {"images", "scoring"}  # what no attack sees
FORBIDDEN = {
    *("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"),
    *("torch.random.manual_seed", "np.random.seed", "random.seed", "pickle.load", "pickle.loads"),
}
DRAWS = {f"torch.{name}" for name in ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial")}


def graph(package: Path) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports anywhere; names without "recon.", a folder's are its own, and ""
    is the package itself."""
    files = {".".join(p.relative_to(package).with_suffix("").parts): p for p in package.rglob("*.py")}
    files = {name.removesuffix("__init__").strip("."): path for name, path in files.items()}
    return {name: set(imports(path, set(files))) for name, path in files.items() if name}


def imports(path: Path, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: relative imports hide from this test"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for dotted in names:
            inner = dotted.removeprefix("recon.")
            if dotted.startswith("recon.") and (inner in modules or inner.rpartition(".")[0] in modules):
                yield inner if inner in modules else inner.rpartition(".")[0]


def place(module: str) -> str:
    return module.split(".")[0]


def rank(module: str) -> int:
    """The package's own names are for the command line, and for readers."""
    return ORDER.index(place(module) or "cli")


def unnamed(package: Path) -> set[str]:
    """Folders and modules that ORDER does not name, and names in it that are nothing."""
    found = {p.stem for p in package.iterdir() if p.is_dir() or p.suffix == ".py"} - {"__init__", "__pycache__"}
    return found ^ set(ORDER)


def backwards(package: Path) -> list[str]:
    """Imports that do not point to an earlier folder or stay in their own."""
    return [
        f"{module} imports {other or PACKAGE.name}"
        for module, others in graph(package).items()
        for other in sorted(others)
        if rank(other) > rank(module)
    ]


def reachable(module: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = set(edges[module])
    while todo:
        other = todo.pop()
        seen.add(other)
        todo |= edges.get(other, set()) - seen
    return seen


def peeking(package: Path) -> list[str]:
    """Attacks from which images or scores can be reached, directly or through others."""
    edges = graph(package)
    return [
        f"{module} reaches {other}"
        for module in sorted(edges)
        if place(module) == "attacks"
        for other in sorted(reachable(module, edges))
        if place(other) in TRUTH
    ]


def circles(package: Path) -> list[str]:
    edges = graph(package)
    return sorted(module for module in edges if module in reachable(module, edges))


def between_chapters(package: Path) -> list[str]:
    """Imports from one chapter's folder into another's."""
    folders = {p.name for p in (package / "chapters").iterdir() if p.is_dir()}

    def chapter(module: str) -> str | None:
        parts = module.split(".")
        return parts[1] if parts[0] == "chapters" and len(parts) > 1 and parts[1] in folders else None

    return [
        f"{module} imports {other}"
        for module, others in graph(package).items()
        for other in sorted(others)
        if chapter(module) and chapter(other) and chapter(module) != chapter(other)
    ]


@pytest.mark.parametrize("rule", [unnamed, backwards, peeking, circles, between_chapters], ids=lambda r: r.__name__)
def test_the_package_keeps_the_rule(rule):
    assert not rule(PACKAGE)


# ----------------------------------------------------------------------------- the rules see what they forbid


@pytest.fixture
def toy(tmp_path):
    """A package with a folder or module for every name of ORDER, two chapters, and nothing wrong with it."""
    package = tmp_path / "recon"
    for name in ORDER:
        if name in ("errors", "released", "cli"):
            write(package / f"{name}.py", "")
        else:
            write(package / name / "__init__.py", "")
    write(package / "__init__.py", "")
    write(package / "attacks" / "one.py", "from recon.optim import loop\nimport recon.errors\n")
    write(package / "optim" / "loop.py", "from recon.errors import ReconError\n")
    write(package / "images" / "pools.py", "")
    write(package / "chapters" / "first" / "__init__.py", "from recon.chapters.first.compute import compute\n")
    write(package / "chapters" / "first" / "compute.py", "from recon.attacks.one import attack\n")
    write(package / "chapters" / "second" / "compute.py", "from recon.chapters import common\n")
    write(package / "chapters" / "common.py", "")
    for rule in (unnamed, backwards, peeking, circles, between_chapters):
        assert not rule(package)
    return package


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


PLANTED = {
    "unknown folder": (unnamed, "more/__init__.py", "", {"more"}),
    "unknown module": (unnamed, "more.py", "", {"more"}),
    "against the order": (
        backwards,
        "optim/loop.py",
        "from recon.attacks import one",
        ["optim.loop imports attacks.one"],
    ),
    "against the order, lazily": (
        backwards,
        "images/pools.py",
        "def f():\n    import recon.store as s",
        ["images.pools imports store"],
    ),
    "the package's own name": (backwards, "errors.py", "from recon import cli", ["errors imports cli"]),
    "the package itself": (
        backwards,
        "optim/loop.py",
        "from recon import __version__",
        ["optim.loop imports recon"],
    ),
    "peeking": (peeking, "attacks/one.py", "from recon.images.pools import load", ["attacks.one reaches images.pools"]),
    "peeking through another": (
        peeking,
        "optim/loop.py",
        "def f():\n    from recon.images import pools",
        ["attacks.one reaches images.pools"],
    ),
    "circle": (circles, "optim/loop.py", "from recon.attacks.one import x", ["attacks.one", "optim.loop"]),
    "chapter to chapter": (
        between_chapters,
        "chapters/second/compute.py",
        "from recon.chapters.first import compute",
        ["chapters.second.compute imports chapters.first.compute"],
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_is_seen(case, toy):
    rule, name, text, expected = PLANTED[case]
    write(toy / name, text)
    assert rule(toy) == expected


def test_a_missing_folder_and_a_relative_import_are_seen(toy):
    (toy / "nets" / "__init__.py").unlink()
    (toy / "nets").rmdir()
    assert unnamed(toy) == {"nets"}
    write(toy / "optim" / "loop.py", "from .. import errors")
    with pytest.raises(AssertionError, match="relative"):
        graph(toy)


# ----------------------------------------------------------------------------- seeds and pickles


def unsafe(path: Path) -> list[str]:
    """Calls that seed or draw from a global generator, or unpickle."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
        if (
            called in FORBIDDEN
            or (called == "torch.load" and keywords.get("weights_only") != "True")
            or (called in DRAWS and "generator" not in keywords)
            or keywords.get("allow_pickle") == "True"
        ):
            found.append(f"{path.name}: {ast.unparse(node)}")
    return found


def test_no_global_seed_and_no_pickles():
    assert [call for path in PACKAGE.rglob("*.py") for call in unsafe(path)] == []


@pytest.mark.parametrize(
    "call",
    [
        *("torch.manual_seed(0)", "torch.load(p)", "torch.load(p, weights_only=False)", "torch.randn(3)"),
        *("np.load(p, allow_pickle=True)", "pickle.loads(b)"),
    ],
)
def test_an_unsafe_call_is_seen(call, tmp_path):
    write(tmp_path / "a.py", f"def f():\n    return {call}\n")
    assert len(unsafe(tmp_path / "a.py")) == 1
