"""What the design forbids, read off the folders: imports against the order, peeking attacks,
circles, global seeds, pickles from strangers. Lazy imports count like all others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: folders and single modules of the two packages, each allowed to import those before it
MODULE = (
    *(
        "errors",
        "images",
        "nets",
        "released",
        "optim",
        "training",
        "attacks",
        "scoring",
        "analysis",
    ),
    *("store", "cli"),
)
COMPANION = ("store", "chapters", "press", "cli")
ORDER = (*(f"recon.{name}" for name in MODULE), *(f"companion.{name}" for name in COMPANION))
TRUTH = {"recon.images", "recon.scoring"}  # what no attack sees
FORBIDDEN = {
    *("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"),
    *("torch.random.manual_seed", "np.random.seed", "random.seed", "pickle.load", "pickle.loads"),
}
DRAWS = {
    f"torch.{name}"
    for name in ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial")
}


def packages(root: Path) -> tuple[Path, Path]:
    return root / "recon", root / "companion"


def audit(root: Path) -> list[str]:
    """Imports of the companion by the audit, which knows `recon` alone."""
    every = (root / "recon-audit" / "recon_audit").rglob("*.py")
    return [
        f"{p.stem} imports {other}"
        for p in every
        for other in imports(p, {"companion", "companion.chapters"})
    ]


def graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules of the packages that it imports anywhere; a folder's name, and a package's,
    is its own.
    """
    every = [path for package in packages(root) for path in package.rglob("*.py")]
    files = {".".join(p.relative_to(root).with_suffix("").parts): p for p in every}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    return {name: set(imports(path, set(files))) for name, path in files.items() if "." in name}


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
            found = dotted if dotted in modules else dotted.rpartition(".")[0]
            if found in modules:
                yield found


def place(module: str) -> str:
    return ".".join(module.split(".")[:2])


def rank(module: str) -> int:
    """A package's own names are for its command line, and for readers."""
    return ORDER.index(place(module) if "." in module else f"{module}.cli")


def unnamed(root: Path) -> set[str]:
    """Folders and modules that ORDER does not name, and names in it that are nothing."""
    inside = [
        p
        for package in packages(root)
        for p in package.iterdir()
        if p.is_dir() or p.suffix == ".py"
    ]
    found = {
        f"{p.parent.name}.{p.stem}"
        for p in inside
        if not p.stem.startswith("__") and p.suffix != ".egg-info"
    }
    return found ^ set(ORDER)


def backwards(root: Path) -> list[str]:
    """Imports that do not point to an earlier folder or stay in their own."""
    return [
        f"{module} imports {other}"
        for module, others in graph(root).items()
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


def peeking(root: Path) -> list[str]:
    """Attacks from which images or scores can be reached, directly or through others."""
    edges = graph(root)
    return [
        f"{module} reaches {other}"
        for module in sorted(edges)
        if place(module) == "recon.attacks"
        for other in sorted(reachable(module, edges))
        if place(other) in TRUTH
    ]


def circles(root: Path) -> list[str]:
    edges = graph(root)
    return sorted(module for module in edges if module in reachable(module, edges))


def between_chapters(root: Path) -> list[str]:
    """Imports from one chapter's folder into another's."""
    folders = {p.name for p in (root / "companion" / "chapters").iterdir() if p.is_dir()}

    def chapter(module: str) -> str | None:
        parts = module.split(".")
        return (
            parts[2] if parts[1] == "chapters" and len(parts) > 2 and parts[2] in folders else None
        )

    return [
        f"{module} imports {other}"
        for module, others in graph(root).items()
        for other in sorted(others)
        if chapter(module) and chapter(other) and chapter(module) != chapter(other)
    ]


@pytest.mark.parametrize(
    "rule",
    [unnamed, backwards, peeking, circles, between_chapters, audit],
    ids=lambda r: r.__name__,
)
def test_the_package_keeps_the_rule(rule):
    assert not rule(ROOT)


# ------------------------------------------------------------------- the rules see what they forbid


@pytest.fixture
def toy(tmp_path):
    """Packages with a folder or module for every name of ORDER, two chapters, and nothing wrong
    with them.
    """
    for name in ORDER:
        alone = name.endswith((".errors", ".released", ".cli"))
        write(tmp_path / f"{name.replace('.', '/')}{'' if alone else '/__init__'}.py", "")
    write(tmp_path / "recon/__init__.py", "")
    write(tmp_path / "recon/attacks/one.py", "from recon.optim import loop\nimport recon.errors\n")
    write(tmp_path / "recon/cli.py", "def main(): ...")
    write(tmp_path / "recon-audit/recon_audit/audit.py", "from recon.attacks import one\n")
    write(tmp_path / "recon/optim/loop.py", "from recon.errors import ReconError\n")
    write(tmp_path / "recon/images/pools.py", "")
    first, second = tmp_path / "companion/chapters/first", tmp_path / "companion/chapters/second"
    write(first / "__init__.py", "from companion.chapters.first.compute import compute\n")
    write(first / "compute.py", "from recon.attacks.one import attack\n")
    write(second / "compute.py", "from companion.chapters import common\n")
    write(tmp_path / "companion/chapters/common.py", "")
    for rule in (unnamed, backwards, peeking, circles, between_chapters, audit):
        assert not rule(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


PLANTED = {
    "unknown folder": (unnamed, "recon/more/__init__.py", "", {"recon.more"}),
    "unknown module": (unnamed, "companion/more.py", "", {"companion.more"}),
    "against the order": (
        backwards,
        "recon/optim/loop.py",
        "from recon.attacks import one",
        ["recon.optim.loop imports recon.attacks.one"],
    ),
    "the module needs the companion, lazily": (
        backwards,
        "recon/images/pools.py",
        "def f():\n    import companion.store as s",
        ["recon.images.pools imports companion.store"],
    ),
    "the audit needs the companion": (
        audit,
        "recon-audit/recon_audit/audit.py",
        "def f():\n    from companion.chapters import common",
        ["audit imports companion.chapters"],
    ),
    "the package's own name": (
        backwards,
        "recon/errors.py",
        "from recon import cli",
        ["recon.errors imports recon.cli"],
    ),
    "the package itself": (
        backwards,
        "recon/optim/loop.py",
        "from recon import __version__",
        ["recon.optim.loop imports recon"],
    ),
    "peeking": (
        peeking,
        "recon/attacks/one.py",
        "from recon.images.pools import load",
        ["recon.attacks.one reaches recon.images.pools"],
    ),
    "peeking through another": (
        peeking,
        "recon/optim/loop.py",
        "def f():\n    from recon.images import pools",
        ["recon.attacks.one reaches recon.images.pools"],
    ),
    "circle": (
        circles,
        "recon/optim/loop.py",
        "from recon.attacks.one import x",
        ["recon.attacks.one", "recon.optim.loop"],
    ),
    "chapter to chapter": (
        between_chapters,
        "companion/chapters/second/compute.py",
        "from companion.chapters.first import compute",
        ["companion.chapters.second.compute imports companion.chapters.first.compute"],
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_is_seen(case, toy):
    rule, name, text, expected = PLANTED[case]
    write(toy / name, text)
    assert rule(toy) == expected


def test_a_missing_folder_and_a_relative_import_are_seen(toy):
    (toy / "recon/nets/__init__.py").unlink()
    (toy / "recon/nets").rmdir()
    assert unnamed(toy) == {"recon.nets"}
    write(toy / "recon/optim/loop.py", "from .. import errors")
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
    folders = (*packages(ROOT), ROOT / "recon-audit" / "recon_audit")
    every = [path for package in folders for path in package.rglob("*.py")]
    assert len(every) > 100 and [call for path in every for call in unsafe(path)] == []


@pytest.mark.parametrize(
    "call",
    [
        *(
            "torch.manual_seed(0)",
            "torch.load(p)",
            "torch.load(p, weights_only=False)",
            "torch.randn(3)",
        ),
        *("np.load(p, allow_pickle=True)", "pickle.loads(b)"),
    ],
)
def test_an_unsafe_call_is_seen(call, tmp_path):
    write(tmp_path / "a.py", f"def f():\n    return {call}\n")
    assert len(unsafe(tmp_path / "a.py")) == 1
