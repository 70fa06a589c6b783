"""What makes a result stale: the code it was computed with, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from recon.chapters import code_of, registry
from recon.press import stamps
from recon.store import keys as sources
from recon.store.keys import code_only, dependencies, source_hash


def names(modules):
    return {path.relative_to(sources.PACKAGE).as_posix() for path in dependencies(modules)}


def test_hash_sees_code_and_not_comments():
    assert code_only('def f(x):\n    """Doc."""\n    return x  # why\n') == code_only("def f(x):\n    return x\n")
    assert code_only("def f(x):\n    return x\n") != code_only("def f(x):\n    return -x\n")


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


def test_hash_does_not_depend_on_the_version_of_python():
    assert code_only(SNIPPET) == AS_TEXT


def other_pythons():
    """Interpreters of the versions that the package supports, besides this one."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in (11, 12, 13, 14):
        if minor != sys.version_info.minor:
            on_path = shutil.which(f"python3.{minor}")
            yield from filter(None, [on_path, *map(str, pyenv.glob(f"3.{minor}.*/bin/python"))])


def test_all_of_the_package_reads_the_same_to_other_versions_of_python():
    """`recon.store.keys` alone needs no package, so any interpreter will do; a shim without one behind it does not."""
    script = f"import sys; sys.path.append({str(sources.PACKAGE)!r}); import sources, pathlib; " + (
        "print([hash_ for path in sorted(sources.PACKAGE.rglob('*.py')) "
        "for hash_ in [sources.hashlib.sha256(sources.code_only(path.read_text('utf-8')).encode()).hexdigest()]])"
    )

    def said(python):
        return subprocess.run([python, "-I", "-c", script], capture_output=True, text=True)

    found = [run.stdout for run in map(said, other_pythons()) if run.returncode == 0]
    if not found:
        pytest.skip("no other version of Python here")
    assert set(found) == {said(sys.executable).stdout}


def test_hash_follows_imports_and_skips_what_does_not_compute(tmp_path):
    files = {
        "experiments/toy.py": "from recon import attack\nfrom recon.chapters.plots import grid\ndef f():\n import recon.lazy\n",
        "attack.py": "from recon.optim.descent import step\n",
        **dict.fromkeys(("descent.py", "lazy.py", "plots/grid.py", "results.py", "other.py"), "a = 1\n"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = source_hash(["experiments.toy"], tmp_path)
    for name in files:
        (tmp_path / name).write_text(files[name] + "# why\n")
        assert source_hash(["experiments.toy"], tmp_path) == before
        (tmp_path / name).write_text(files[name] + "b = 2\n")
        changed = source_hash(["experiments.toy"], tmp_path) != before
        assert changed == (name not in ("plots/grid.py", "results.py", "other.py")), name
        (tmp_path / name).write_text(files[name])


@pytest.mark.parametrize("name", registry())
def test_every_experiment_depends_on_itself_its_data_and_no_plots(name):
    module = registry()[name].run.__module__.removeprefix("recon.")
    found = names([module])
    assert module.replace(".", "/") + ".py" in found and "data.py" in found
    assert not any(path.startswith("plots") or path in ("cli.py", "experiments/profiles.py") for path in found)


def test_chapters_do_not_make_each_other_stale():
    linear, tuned = (names([registry()[n].run.__module__.removeprefix("recon.")]) for n in ("linear", "decoreco-tuned"))
    assert "decoreco.py" in tuned - linear and "solution_set.py" in linear - tuned
    assert code_of(registry()["linear"]) != code_of(registry()["decoreco-tuned"])


def test_a_page_depends_on_its_experiments_and_their_settings():
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('import recon\nrecon.run("linear")')])
    other = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('import recon\nrecon.run("collapse")')])
    assert stamps.source_hash(page, "smoke") != stamps.source_hash(page, "laptop")
    assert stamps.source_hash(page, "smoke") != stamps.source_hash(other, "smoke")
    assert stamps.source_hash(page, "smoke") == stamps.source_hash(page, "smoke")
