"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from companion.press.html import toc_files

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = [
    Requirement(line)
    for line in [
        *PROJECT["dependencies"],
        *(r for extra in PROJECT["optional-dependencies"].values() for r in extra),
    ]
]
LOCK_LINES = (ROOT / "requirements.lock").read_text().splitlines()
LOCK = {canonicalize_name(r.name): r for r in map(Requirement, LOCK_LINES)}
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())


def pin(requirement: Requirement) -> str:
    (only,) = requirement.specifier
    assert only.operator == "==" and "*" not in only.version, f"{requirement} is not an exact pin"
    return only.version


@pytest.mark.parametrize("declared", DECLARED, ids=lambda r: r.name)
def test_every_declared_dependency_is_locked_within_its_range(declared):
    locked = LOCK[canonicalize_name(declared.name)]
    assert locked.marker is None, f"{declared.name} is not locked on every platform"
    assert declared.specifier.contains(pin(locked))


def test_the_lock_holds_exact_pins_once_each_and_names_no_host():
    assert len(LOCK) == len(LOCK_LINES)
    assert all(pin(requirement) for requirement in LOCK.values())
    assert not re.search(r"://|--", "\n".join(LOCK_LINES))


def test_this_environment_is_the_locked_one():
    for name, requirement in LOCK.items():
        if requirement.marker is None or requirement.marker.evaluate():
            try:
                installed = version(name)
            except PackageNotFoundError:
                pytest.fail(f"{name} is locked but not installed: run make env")
            assert installed.split("+")[0] == pin(requirement), name


def test_conda_environment_installs_the_lock_at_a_python_that_is_declared():
    python, pip, packages = CONDA["dependencies"]
    assert pip == "pip"
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python=") + ".0")
    assert packages["pip"] == ["-r requirements.lock", "-e .", "-e companion", "-e recon-audit"]


def test_the_table_of_contents_lists_every_chapter_and_page():
    chapters = {f"book/executed/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    pages = {f"book/{path.stem}" for path in (ROOT / "book").glob("*.md")}
    assert set(toc_files(ROOT / "_toc.yml")) == chapters | pages


def test_every_python_that_is_declared_is_tested_and_no_other():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    declared = SpecifierSet(PROJECT["requires-python"])
    assert tested == [f"3.{minor}" for minor in range(50) if declared.contains(f"3.{minor}")]


# ------------------------------------------------------------------ another package of the name


@pytest.mark.parametrize(
    "code",
    ["import recon_audit", "import companion", "from recon.cli import main; main(['list'])"],
)
def test_another_package_called_recon_is_told_in_one_sentence(code, tmp_path):
    theirs = tmp_path / "recon" / "__init__.py"
    theirs.parent.mkdir()
    theirs.write_text("__version__ = '0.0.4'")
    for left in ("cli.py", "errors.py"):  # of ours, where theirs was installed over it
        (theirs.parent / left).symlink_to(ROOT / "recon" / left)
    path = f"import sys; sys.path[1:1] = ['{ROOT}', '{ROOT}/recon-audit']; "
    command = [sys.executable, "-c", path + code]  # which looks first where it runs
    met = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert met.returncode and f"{theirs} is another recon: " in met.stderr.splitlines()[-1]
