"""What the design forbids, read off the folders: imports against the order, peeking attacks,
circles, global seeds, pickles from strangers, dataclasses that change. Lazy imports count like all
others.
"""

from __future__ import annotations

import ast
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


def graph(root: Path) -> Graph:
    """Module -> modules of the packages that it imports anywhere; a folder's name, and a package's,
    is its own.
    """
    files = {}
    for path in sources(root / "recon", root / "companion"):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
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


def unnamed(root: Path) -> set[str]:
    """Folders and modules that ORDER does not name, and names in it that are nothing."""
    return {place(module) for module in graph(root)} ^ set(ORDER)


def backwards(root: Path) -> set[str]:
    """Imports that do not point to an earlier folder or stay in their own."""
    return {
        f"{module} imports {other}"
        for module, others in graph(root).items()
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


def peeking(root: Path) -> set[str]:
    """Attacks from which images or scores can be reached, directly or through others."""
    edges = graph(root)
    attacks = [module for module in edges if place(module) == "recon.attacks"]
    return {
        f"{module} reaches {place(other)}"
        for module in attacks
        for other in reachable(module, edges)
        if place(other) in TRUTH
    }


def circles(root: Path) -> set[str]:
    edges = graph(root)
    return {module for module in edges if module in reachable(module, edges)}


def between_chapters(root: Path) -> set[str]:
    """Imports from one chapter's folder into another's."""
    folders = {path.name for path in (root / "companion" / "chapters").iterdir() if path.is_dir()}

    def chapter(module: str) -> str:
        inside = module.removeprefix("companion.chapters.").split(".")[0]
        return inside if inside in folders else ""

    return {
        f"{module} imports {other}"
        for module, others in graph(root).items()
        for other in others
        if chapter(module) and chapter(other) and chapter(module) != chapter(other)
    }


def audit_needs_companion(root: Path) -> set[str]:
    """The audit knows `recon` alone."""
    companion = {module for module in graph(root) if module.startswith("companion")}
    return {
        f"{path.stem} imports {other}"
        for path in sources(root / "recon-audit" / "recon_audit")
        for other in imports(path, companion)
    }


RULES = (unnamed, backwards, peeking, circles, between_chapters, audit_needs_companion)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule):
    assert not rule(ROOT)


# ------------------------------------------------------------------- the rules see what they forbid


@pytest.fixture
def toy(tmp_path):
    """Packages with a module for every name of ORDER, two chapters, and nothing wrong with them."""
    for name in ORDER:
        write(tmp_path / f"{name.replace('.', '/')}/__init__.py", "")
    write(tmp_path / "recon/__init__.py", "")
    write(tmp_path / "recon/attacks/one.py", "from recon.optim import loop\nimport recon.errors\n")
    write(tmp_path / "recon/optim/loop.py", "from recon.errors import ReconError\n")
    write(tmp_path / "recon/images/pools.py", "")
    write(tmp_path / "recon-audit/recon_audit/audit.py", "from recon.attacks import one\n")
    write(tmp_path / "companion/chapters/first/compute.py", "from recon.attacks.one import f\n")
    write(tmp_path / "companion/chapters/second/compute.py", "")
    for rule in RULES:
        assert not rule(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("rule", "name", "text", "violation"),
    [
        (unnamed, "recon/more/__init__.py", "", "recon.more"),
        (
            backwards,
            "recon/optim/loop.py",
            "from recon.attacks import one",
            "recon.optim.loop imports recon.attacks.one",
        ),
        (
            backwards,
            "recon/images/pools.py",
            "def f():\n    import companion.store as s",
            "recon.images.pools imports companion.store",
        ),
        (
            backwards,
            "recon/optim/loop.py",
            "from recon import __version__",
            "recon.optim.loop imports recon",
        ),
        (
            audit_needs_companion,
            "recon-audit/recon_audit/audit.py",
            "def f():\n    from companion.chapters import common",
            "audit imports companion.chapters",
        ),
        (
            peeking,
            "recon/optim/loop.py",
            "def f():\n    from recon.images import pools",
            "recon.attacks.one reaches recon.images",
        ),
        (
            circles,
            "recon/optim/loop.py",
            "from recon.attacks.one import x",
            "recon.attacks.one",
        ),
        (
            between_chapters,
            "companion/chapters/second/compute.py",
            "from companion.chapters.first import compute",
            "companion.chapters.second.compute imports companion.chapters.first.compute",
        ),
    ],
)
def test_a_planted_violation_is_seen(rule, name, text, violation, toy):
    write(toy / name, text)
    assert violation in rule(toy)


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


@pytest.mark.parametrize(
    "call",
    [
        "torch.manual_seed(0)",
        "torch.load(p)",
        "torch.load(p, weights_only=False)",
        "torch.randn(3)",
        "np.load(p, allow_pickle=True)",
        "pickle.loads(b)",
    ],
)
def test_an_unsafe_call_is_seen(call, tmp_path):
    write(tmp_path / "a.py", f"def f():\n    return {call}\n")
    assert len(unsafe(tmp_path / "a.py")) == 1


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
