"""What makes a result stale: the code it was computed with, and nothing else."""

from __future__ import annotations

import nbformat
import pytest

from recon import sources, stamps
from recon.experiments import code_of, registry
from recon.sources import code_only, dependencies, source_hash


def names(modules):
    return {path.relative_to(sources.PACKAGE).as_posix() for path in dependencies(modules)}


def test_hash_sees_code_and_not_comments():
    assert code_only('def f(x):\n    """Doc."""\n    return x  # why\n') == code_only("def f(x):\n    return x\n")
    assert code_only("def f(x):\n    return x\n") != code_only("def f(x):\n    return -x\n")


def test_hash_follows_imports_and_skips_what_does_not_compute(tmp_path):
    files = {
        "experiments/toy.py": "from recon import attack\nfrom recon.plots import grid\ndef f():\n import recon.lazy\n",
        "attack.py": "from recon.descent import step\n",
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
