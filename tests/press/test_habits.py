"""Executing a chapter does not depend on how its reader set up Python, Jupyter and matplotlib."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tiny import chapter, write

from companion.press import runner
from companion.press.runner import execute, kernels

FACTS = """import os, sys
import matplotlib as mpl
print(sys.flags.optimize, sys.warnoptions, "habit" in globals(), mpl.rcParams["text.usetex"])
"one value", "of two"
"and the other\""""
FIGURE = """import matplotlib.pyplot as plt
plt.figure(figsize=(1, 1))
plt.plot([1, 2], label="words")
plt.legend()
plt.show()"""
EXPECTED = ["0 [] False False\n", "'and the other'"]
PROFILE = """c.InteractiveShell.ast_node_interactivity = "all"
c.InlineBackend.rc = {"figure.facecolor": "black"}
c.InlineBackend.figure_formats = {"svg"}
"""
HABIT = "habit = 1\nprint('hello')\n"


def backend(_: Path) -> dict[str, str]:
    return {"MPLBACKEND": "Agg"}


def profile(folder: Path) -> dict[str, str]:
    put(folder / "profile_default" / "ipython_config.py", PROFILE)
    put(folder / "profile_default" / "startup" / "00-habit.py", HABIT)
    return {"IPYTHONDIR": str(folder)}


def python(folder: Path) -> dict[str, str]:
    start = put(folder / "start.py", HABIT)
    return {"PYTHONWARNINGS": "error", "PYTHONSTARTUP": start, "PYTHONOPTIMIZE": "1"}


def jupyter(folder: Path) -> dict[str, str]:
    """A kernel of the same name that does not start, and a file of settings that cannot be read."""
    spec = {"argv": ["false"], "display_name": "mine", "language": "python"}
    put(folder / "kernels" / runner.KERNEL / "kernel.json", json.dumps(spec))
    for name in ("jupyter_config.py", "ipython_config.py", "ipython_kernel_config.py"):
        put(folder / name, "raise SystemExit(1)")
    variables = "JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"
    return dict.fromkeys(variables, str(folder))


HABITS = (backend, profile, python, jupyter)


def put(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def outputs(folder: Path) -> tuple[list[str], bytes]:
    """What the tiny chapter prints and shows, and its only picture, executed here and now."""
    source = write(folder, "01-one", chapter(FACTS, FIGURE))
    parameters = {"profile": "smoke", "data": "photos", "seed": 0, "device": "cpu"}
    with kernels(folder / "run", {}):
        page = execute(source, folder / "01-one.ipynb", parameters)
    parts = [output for cell in page.cells for output in cell.get("outputs", [])]
    texts = [part.get("text") or part.data["text/plain"] for part in parts[:-1]]
    return texts, base64.b64decode(parts[-1].data["image/png"])


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> tuple[list[str], bytes]:
    """The outputs without a habit."""
    return outputs(tmp_path_factory.mktemp("calm"))


@pytest.mark.parametrize("habit", HABITS)
def test_no_habit_changes_an_output(habit, calm, tmp_path, monkeypatch):
    """Every letter, and every byte of the picture."""
    for name, value in habit(tmp_path / "habit").items():
        monkeypatch.setenv(name, value)
    assert calm[0] == EXPECTED and outputs(tmp_path) == calm
