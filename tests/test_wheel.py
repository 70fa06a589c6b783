"""The module alone: a wheel of it, away from any checkout and from everything that only the book
needs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PREAMBLE = """
import sys
sys.path[:0] = sys.argv[1:3]
import torch, recon
assert recon.__file__.startswith(sys.argv[1]), recon.__file__
g = torch.Generator().manual_seed(0)
"""
TRIED = {
    "separation": (
        """
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
x = torch.rand(12, 3 * 8 * 8, generator=g)
layer = FirstLayer(torch.randn(20, 12, generator=g) @ x)
found = separate(layer, (3, 8, 8), SeparationSettings(rank=4))
assert found.x_hat.isfinite().all()
"""
    ),
    "scoring": (
        """
from recon.scoring.roc import auc
from recon.scoring.matching import target_decoy
import numpy
assert auc(numpy.arange(4.0), numpy.arange(4) > 1) == 1
"""
    ),
    "audit": (
        """
x, y = torch.rand(24, 3, 8, 8, generator=g), torch.arange(24) % 2
layers = torch.nn.Linear(192, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
net = torch.nn.Sequential(torch.nn.Flatten(), *layers)
new = torch.rand(24, 3, 8, 8, generator=g)
report = recon.audit(net, (x, y), new, transform="none", out=sys.argv[3], profile="smoke")
assert report.verdict and "<html" in open(sys.argv[3] + "/report.html").read()
"""
    ),
    "no companion": (
        """
from recon.cli import main
from recon.errors import ReconError
try:
    recon.run("linear")
except ReconError as error:
    assert "another distribution" in str(error) and str(error).count(chr(10)) == 0
else:
    raise AssertionError("the book was made without the companion")
for command in (["list"], ["run", "linear", "--profile", "smoke"]):
    try:
        main(command)
    except SystemExit as ended:
        assert ended.code == 2
    else:
        raise AssertionError("there is no such command")
"""
    ),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of installed wheels of the module and of the audit, built from copies of the
    checkout.
    """
    target = tmp_path_factory.mktemp("installed")
    for package, folder in {"recon": ROOT, "recon_audit": ROOT / "recon-audit"}.items():
        copy = tmp_path_factory.mktemp("source") / package
        shutil.copytree(
            folder / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
        )
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, copy / name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
        subprocess.run([*pip, "wheel", *offline, "-w", str(copy / "dist"), str(copy)], check=True)
        (wheel,) = (copy / "dist").glob("*.whl")
        subprocess.run(
            [*pip, "install", *offline[:1], *offline[2:], "--target", str(target), str(wheel)],
            check=True,
        )
    return target


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder with what the module declares, and what that needs in turn: nothing else can be
    imported.
    """
    folder, todo, seen = tmp_path_factory.mktemp("environment"), [*needed()], set()
    while todo:
        name = canonicalize_name(todo.pop())
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            if not (folder / top).exists():
                (folder / top).symlink_to(found.locate_file(top))
        declared = map(Requirement, found.requires or ())
        todo += [
            each.name
            for each in declared
            if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
    assert not {"matplotlib", "pandas", "sphinx", "pydantic", "opacus"} & seen
    return folder


def needed() -> set[str]:
    """What the module and the audit declare, apart from each other."""
    return {name for folder in (ROOT, ROOT / "recon-audit") for name in declared(folder)} - {
        "training-data-recon"
    }


def declared(folder: Path) -> set[str]:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return {Requirement(each).name for each in project["dependencies"]}


@pytest.mark.parametrize("tried", TRIED)
def test_the_module_works_alone(tried, installed, environment, tmp_path):
    code = PREAMBLE + TRIED[tried]
    command = [
        sys.executable,
        "-S",
        "-I",
        "-c",
        code,
        str(installed),
        str(environment),
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
