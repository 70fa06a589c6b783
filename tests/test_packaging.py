"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

from __future__ import annotations

import re
import shutil
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


# ------------------------------------------------------------------------- which Pythons, and where

#: a Python that says that it is another, and starts no module
PRETENDER = """#!/bin/sh
exec "{python}" -c '
import platform, sys
sys.version_info = {version}
platform.system, platform.machine = lambda: "{system}", lambda: "{machine}"
sys.exit("set up") if sys.argv[1] == "-m" else exec(sys.argv[2])
' "$@"
"""
INTEL = "PyTorch ended with 2.2.2 on Macs with Intel processors, and recon needs 2.11"
OTHER = "recon needs Python 3.11 to 3.14: name one with make PYTHON=python3.11"


@pytest.mark.parametrize(
    ("system", "machine", "version", "sentence"),
    [
        ("Darwin", "x86_64", (3, 12, 1), INTEL),
        ("Darwin", "arm64", (3, 10, 9), OTHER),
        ("Linux", "x86_64", (3, 14, 2), "set up"),
    ],
)
def test_make_refuses_what_has_no_wheels_before_pip(system, machine, version, sentence, tmp_path):
    packages = (f"{folder}/pyproject.toml" for folder in (".", "companion", "recon-audit"))
    for name in ("Makefile", "requirements.lock", *packages):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    says = {"system": system, "machine": machine, "version": version}
    python.write_text(PRETENDER.format(python=sys.executable, **says))
    python.chmod(0o755)
    command = ["make", "env", f"PYTHON={python}"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 2 and made.stderr.splitlines()[0] == sentence
    assert not (tmp_path / ".venv").exists()


def test_what_a_stock_build_leaves_is_ignored():
    lines = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/book/figures/", "/book/thumbnails/", "_build/"} <= set(lines)


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
