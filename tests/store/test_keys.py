"""What makes a result stale: the definitions it was computed with, and nothing else."""

from __future__ import annotations

import ast
import dataclasses
import os
import random
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import pytest

from companion.chapters import _defined, registry
from companion.press import stamps
from recon.store import keys

EXPERIMENTS = list(registry())


SNIPPET = """class A(B, metaclass=M):
    def f(self, /, x: int = 0, *, y, z=None, **rest) -> str:
        return f"{x!r:>{y}} é" + "" if x in (None, [], {}, ...) else lambda: {**rest}
"""
#: what every version of Python must make of it; a change makes all published results stale
AS_TEXT = (
    "Module(body=[ClassDef(name='A', bases=[Name(id='B', ctx=Load())], keywords=[keyword(arg='metaclass', "
    "value=Name(id='M', ctx=Load()))], body=[FunctionDef(name='f', args=arguments(posonlyargs=[arg(arg='self')], "
    "args=[arg(arg='x', annotation=Name(id='int', ctx=Load()))], kwonlyargs=[arg(arg='y'), arg(arg='z')], "
    "kw_defaults=[None, Constant()], kwarg=arg(arg='rest'), defaults=[Constant(value=0)]), "
    "body=[Return(value=IfExp(test=Compare(left=Name(id='x', ctx=Load()), ops=[In()], "
    "comparators=[Tuple(elts=[Constant(), List(ctx=Load()), Dict(), Constant(value=Ellipsis)], ctx=Load())]), "
    "body=BinOp(left=JoinedStr(values=[FormattedValue(value=Name(id='x', ctx=Load()), conversion=114, "
    "format_spec=JoinedStr(values=[Constant(value='>'), FormattedValue(value=Name(id='y', ctx=Load()), "
    "conversion=-1)])), Constant(value=' é')]), op=Add(), right=Constant(value='')), "
    "orelse=Lambda(args=arguments(), body=Dict(keys=[None], values=[Name(id='rest', ctx=Load())]))))], "
    "returns=Name(id='str', ctx=Load()))])])"
)


def text_of(source: str) -> str:
    """What is hashed of a file."""
    tree = ast.parse(source)
    keys._Silent().visit(tree)
    return keys._dump(tree)


def test_hash_does_not_depend_on_the_version_of_python():
    assert text_of(SNIPPET) == AS_TEXT


def test_comments_docstrings_and_the_words_of_errors_do_not_count():
    plain = "def f(x):\n    if x:\n        raise E('a')\n    assert x, 'b'\n    return x\n"
    said = 'def f(x):\n    """Doc."""\n    if x:  # why\n        raise E("c")\n    assert x, "d"\n    return x\n'
    assert text_of(plain) == text_of(said) != text_of(plain.replace("return x", "return -x"))
    assert text_of(plain) != text_of(plain.replace("raise E", "raise F"))


def other_pythons():
    """Interpreters of the versions that the package supports, besides this one."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in (11, 12, 13, 14):
        if minor != sys.version_info.minor:
            on_path = shutil.which(f"python3.{minor}")
            yield from filter(None, [on_path, *map(str, pyenv.glob(f"3.{minor}.*/bin/python"))])


@pytest.mark.slow
def test_all_of_the_package_reads_the_same_to_other_versions_of_python():
    """`recon.store.keys` alone needs no package, so any interpreter will do; a shim without one behind it does not."""
    script = f"""
import sys
sys.path.append({str(keys.ROOT / "recon" / "store")!r})
import keys
for path in sorted(path for package in keys.PACKAGES for path in (keys.ROOT / package).rglob("*.py")):
    module = keys._read(".".join(path.relative_to(keys.ROOT).with_suffix("").parts), keys.ROOT)
    text = [module.text(name) for name in sorted(module.definitions)]
    print(module.dotted, keys.hashlib.sha256(repr(text).encode()).hexdigest())
"""

    def said(python):
        return subprocess.run([python, "-I", "-c", script], capture_output=True, text=True)

    found = [run.stdout for run in map(said, other_pythons()) if run.returncode == 0]
    if not found:
        pytest.skip("no other version of Python here")
    assert set(found) == {said(sys.executable).stdout} and len(found[0].splitlines()) > 50


# ------------------------------------------------------------------------------------------------ a toy package

TOY = {
    "companion/chapters/toy.py": "from recon import attack\nfrom companion.chapters.figures import grid\n"
    "SIZE = 3\nOTHER = 4\n"
    "def compute(sizes, context: 'str'):\n    import recon.lazy\n    return attack.run(SIZE, recon.lazy.late())\n"
    "def claims():\n    return grid(OTHER)\n",
    "companion/chapters/figures.py": "def grid(x):\n    return x\n",
    "recon/attack.py": "from recon.optim import step as descend\nfrom recon.base import *\n"
    "def run(n, x) -> 'int':\n    return Helper(n).go(x)\n"
    "class Helper(object):\n    def go(self, x):\n        return descend(x)\n"
    "def unused():\n    return 1\n",
    "recon/optim/__init__.py": "from recon.optim.steps import step\n",
    "recon/optim/steps.py": "print('imported')\nRATE = 0.1\n"
    "def step(x):\n    return x * RATE\ndef other():\n    return 2\n",
    "recon/lazy.py": "def late():\n    return 7\n",
    "recon/base.py": "",
}
#: (file, what stands there, what it becomes) -> whether the key changes
EDITS = {
    ("companion/chapters/toy.py", "SIZE = 3", "SIZE = 5"): True,
    ("companion/chapters/toy.py", "OTHER = 4", "OTHER = 5"): False,
    ("companion/chapters/figures.py", "return x", "return 2 * x"): False,
    ("recon/attack.py", "descend(x)", "-descend(x)"): True,
    ("recon/attack.py", "return 1", "return 3"): False,
    ("recon/attack.py", "class Helper(object)", "class Helper(dict)"): True,
    ("recon/optim/steps.py", "0.1", "0.2"): True,
    ("recon/optim/steps.py", "x * RATE", "x / RATE"): True,
    ("recon/optim/steps.py", "return 2", "return 3"): False,
    ("recon/optim/steps.py", "imported", "changed"): True,  # what happens on import may matter to anything
    ("recon/lazy.py", "7", "8"): True,
}


def forget() -> None:
    """Read every file again: it was edited."""
    keys._read.cache_clear()
    keys._is_module.cache_clear()


@pytest.fixture
def toy(tmp_path):
    for name, text in TOY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    yield tmp_path
    forget()


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: f"{e[0]}: {e[2]}")
def test_hash_follows_names_and_nothing_else(toy, edit):
    file, old, new = edit

    def hashed() -> str:
        forget()
        return keys.code_hash([("companion.chapters.toy", "compute")], toy)

    before = hashed()
    (toy / file).write_text("# why\n" + TOY[file])
    assert hashed() == before
    assert old in TOY[file]
    (toy / file).write_text(TOY[file].replace(old, new))
    assert (hashed() != before) == EDITS[edit]


def test_a_name_that_is_nowhere_is_no_endless_search(toy):
    assert keys.reached([("recon.attack", "nothing")], toy) == set()


def test_a_package_that_imports_a_module_of_its_own_is_no_endless_search(toy):
    """`from recon.chapter import attack` in recon/chapter/__init__.py stands for the module, not for itself."""
    (toy / "recon" / "chapter").mkdir()
    (toy / "recon" / "chapter" / "__init__.py").write_text("from recon.chapter import inner\n")
    (toy / "recon" / "chapter" / "inner.py").write_text("def f():\n    return 1\n")
    assert keys.reached([("recon.chapter", "inner")], toy) == {("recon.chapter.inner", "f")}


# ----------------------------------------------------------------------------------- every experiment, on a copy


class Read(keys._Module):
    """What `keys` makes of a file, each definition made once."""

    def __init__(self, dotted: str, root: Path) -> None:
        super().__init__(dotted, root)
        plain = root / dotted.replace(".", "/")
        self.path = plain / "__init__.py" if plain.is_dir() else plain.with_suffix(".py")
        self.text = cache(super().text)
        self.used = cache(lambda name: list(keys._Module.uses(self, name)))

    def uses(self, name):
        return self.used(name)


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the packages, of which a file is read again only when `write` has edited it."""
    for package in keys.PACKAGES:
        shutil.copytree(keys.ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(
        keys, "_read", lambda dotted, _: SEEN.get(dotted) or SEEN.setdefault(dotted, Read(dotted, tmp_path))
    )
    SEEN.clear()
    return tmp_path


SEEN: dict[str, Read] = {}  # of the copy


def write(path: Path, text: str) -> None:
    path.write_text(text)
    for dotted in [dotted for dotted, read in SEEN.items() if read.path == path]:
        del SEEN[dotted]


def root_of(name: str) -> keys.Name:
    return _defined(registry()[name].compute)


def hashes(root: Path) -> dict[str, str]:
    return {name: keys.code_hash([root_of(name)], root) for name in EXPERIMENTS}


class Reworded(ast.NodeTransformer):
    """Other docstrings and other words in errors; with `all_texts`, every other text too."""

    def __init__(self, all_texts: bool = False) -> None:
        self.all_texts = all_texts

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = [ast.Constant("other words")]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and self.all_texts:
            node.value += " reworded"
        elif isinstance(node, ast.JoinedStr):
            if self.all_texts:
                node.values.append(ast.Constant(" reworded"))
            return node
        elif isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Expr(ast.Constant("Another docstring."))
        return self.generic_visit(node)


def reworded(path: Path, all_texts: bool = False) -> str:
    return ast.unparse(ast.fix_missing_locations(Reworded(all_texts).visit(ast.parse(path.read_text()))))


def test_wording_changes_no_key(copy):
    """Claims, captions, costs: any text of these files.  Everywhere else: docstrings and the words of errors."""
    before = hashes(copy)
    for path in copy.rglob("*.py"):
        registered = path.name == "__init__.py" and path.parent.parent.name == "chapters"
        said = path.name.startswith("story") or path.name == "pictures.py"
        text = reworded(path, all_texts=said or registered)
        assert text != path.read_text()
        write(path, text)
    assert hashes(copy) == before


def parts_of(name: str, root: Path = keys.ROOT) -> set[keys.Name]:
    """What an experiment's compute reaches."""
    return keys.reached([root_of(name)], root)


class OneFactor(ast.NodeTransformer):
    """Changes the first number, or else the first operator, that computes something."""

    SWAP = {
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Add,
        ast.Div: ast.Mult,
        ast.Lt: ast.Gt,
        ast.MatMult: ast.Add,
    }

    def __init__(self, numbers: bool) -> None:
        self.numbers, self.done = numbers, False

    def visit(self, node: ast.AST) -> ast.AST:
        if self.done or isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            return node
        if self.numbers and isinstance(node, ast.Constant) and type(node.value) in (int, float):
            node.value, self.done = node.value + 1, True
        elif not self.numbers and isinstance(node, ast.BinOp) and type(node.op) in self.SWAP:
            node.op, self.done = self.SWAP[type(node.op)](), True
        return self.generic_visit(node)


def changed(source: str, name: str) -> str | None:
    """The module with one factor of this definition changed; None if it has none."""
    for numbers in (True, False):
        tree = ast.parse(source)
        for node in tree.body:
            if name in keys._defines(node):
                edit = OneFactor(numbers)
                edit.visit(node)
                if edit.done:
                    return ast.unparse(tree)
    return None


def test_a_factor_in_anything_that_is_reached_changes_the_key(copy):
    """A sample of all definitions that some experiment reaches; for one that does not reach it nothing changes."""
    by_name = {name: parts_of(name, copy) for name in EXPERIMENTS}
    every = sorted(set().union(*by_name.values()))
    assert len(every) > 50
    before, tried, chooser = hashes(copy), 0, random.Random(0)
    for module, name in chooser.sample(every, len(every)):
        path = copy / (module.replace(".", "/") + ".py")
        if not path.is_file() or tried == 40:
            continue
        source = path.read_text()
        if (text := changed(source, name)) is None:
            continue
        tried += 1
        write(path, text)
        inside = [each for each in EXPERIMENTS if (module, name) in by_name[each]]
        outside = [each for each in EXPERIMENTS if (module, name) not in by_name[each]]
        for group, expected in ((inside, True), (outside, False)):
            for each in chooser.sample(group, min(1, len(group))):
                assert (keys.code_hash([root_of(each)], copy) != before[each]) == expected, (module, name, each)
        write(path, source)
    assert tried > 20


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_experiment_depends_on_what_only_shows_or_stores(name):
    module, _ = root_of(name)
    found = {each for each, _ in parts_of(name)}
    assert module in found and any(each.startswith("recon.images") for each in found)
    shown = {"cli", "press", "auditing"}
    assert not any(each.split(".")[1] in shown or each.endswith((".claims", ".figures")) for each in found)


# ------------------------------------------------------------------------------------------------ pages


def page(code: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])


def test_a_page_depends_on_its_experiments_their_sizes_and_what_it_imports():
    runs = page('import recon\nrecon.run("linear")')
    found = [stamps.source_hash(runs, "smoke"), stamps.source_hash(runs, "laptop")]
    found.append(stamps.source_hash(page("x = 1"), "smoke"))
    found.append(stamps.source_hash(page('from recon.nets.mlp import affine\nrecon.run("linear")'), "smoke"))
    assert len(set(found)) == 4 and found[0] == stamps.source_hash(runs, "smoke")


def test_a_pages_hash_follows_the_script_of_an_element_on_it(monkeypatch, tmp_path):
    static = tmp_path / "book" / "_static"
    static.mkdir(parents=True)
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    playing, other = (
        page("from companion.chapters.landscape.walk import walk"),
        page("from recon.nets.mlp import affine"),
    )
    (static / "walk.js").write_text("() => {}")
    before = [stamps.source_hash(each, "smoke") for each in (playing, other)]
    (static / "walk.js").write_text("() => 1")
    after = [stamps.source_hash(each, "smoke") for each in (playing, other)]
    assert before[0] != after[0] and before[1] == after[1]
    (static / "elements.css").write_text(".paper {}")  # in every element
    shared = [stamps.source_hash(each, "smoke") for each in (playing, other)]
    assert shared[0] != after[0] and shared[1] == after[1]


@pytest.mark.parametrize("part", ["compute", "claims", "figures", "sizes"])
def test_a_page_is_stale_where_its_results_its_claims_or_its_figures_are(part, monkeypatch):
    runs, linear = page('recon.run("linear")'), registry()["linear"]
    before = stamps.source_hash(runs, "smoke")
    other = {
        "compute": {"compute": registry},
        "claims": {"claims": registry},
        "figures": {"figures": {**linear.figures, "more": registry}},
        "sizes": {"sizes": {"smoke": dataclasses.replace(linear.sizes["smoke"], iterations=7)}},
    }
    changed = dataclasses.replace(linear, **other[part])
    monkeypatch.setattr(stamps, "experiment", lambda name: changed)
    assert stamps.source_hash(runs, "smoke") != before


def test_a_module_that_there_is_not_has_no_hash():
    """Of no definitions all hashes are equal, so that a renamed module would keep old results for good."""
    with pytest.raises(ValueError, match="no module attacks.separation"):
        keys.code_hash([("attacks.separation", "separate")])
