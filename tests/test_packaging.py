"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

from __future__ import annotations

import re
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
    for line in [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
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


def test_torch_and_torchvision_are_a_pair():
    assert (pin(LOCK["torch"]), pin(LOCK["torchvision"])) == ("2.15.0", "0.29.2")


def test_this_environment_is_the_locked_one():
    for name, requirement in LOCK.items():
        if requirement.marker is None or requirement.marker.evaluate():
            try:
                installed = version(name)
            except PackageNotFoundError:
                pytest.fail(f"{name} is locked but not installed: run make env")
            assert installed.split("+")[0] == pin(requirement), name


def test_conda_environment_installs_the_lock_at_a_python_that_is_declared():
    python = next(d for d in CONDA["dependencies"] if isinstance(d, str) and d.startswith("python="))
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python=") + ".0")
    (pip,) = (d["pip"] for d in CONDA["dependencies"] if isinstance(d, dict))
    assert CONDA["name"] == PROJECT["name"]
    assert pip == ["-r requirements.lock", "-e .", "-e companion"]
    assert [d for d in CONDA["dependencies"] if isinstance(d, str)] == [python, "pip"]  # the rest comes from the lock


def test_ruff_and_citation_agree_with_the_project():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert PROJECT["requires-python"] == ">=3.11" and tool["ruff"]["target-version"] == "py311"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]


def test_the_table_of_contents_lists_every_chapter():
    listed = {name.rsplit("/", 1)[1] for name in toc_files(ROOT / "_toc.yml") if name.startswith("book/executed/")}
    assert listed == {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
