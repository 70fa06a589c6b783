"""Every exercise has a solution that runs (nbval runs it, with the page), and every call in prose
is one that works.
"""

from __future__ import annotations

import ast
import json
import re

import pytest

from companion.chapters import ROOT, experiment, sizes_of
from recon.errors import ReconError

CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CALL = re.compile(r"recon\.run\((?:[^()]|\([^()]*\))*\)")
#: arguments of `recon.run` that are not fields of the sizes
ARGUMENTS = {"profile", "data", "device", "seed", "out", "data_root", "workers"}


def parts(path) -> tuple[str, list[dict]]:
    """The prose of a chapter and the cells of its solutions, which follow the exercises and nothing
    else does.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    prose = "\n\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
    )
    return prose, [cell for cell in cells if "solution" in cell["metadata"].get("tags", [])]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_exercise_has_its_solution(path):
    prose, solutions = parts(path)
    exercises = re.findall(r"^\d+\. ", prose.split("## Exercises")[1], re.MULTILINE)
    assert len(solutions) == len(exercises) > 0
    for number, cell in enumerate(solutions, 1):
        assert cell["id"] == f"solution-{number}" and "assert " in "".join(cell["source"])


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_what_to_try_can_be_run(path):
    """Names, profiles and fields of every call in prose; to run them all would take the tests half
    an hour.
    """
    prose, _ = parts(path)
    assert re.search(r"\*\*Try it\.\*\*.{0,400}?```python\n[^`]*recon\.run\(", prose, re.DOTALL)
    for text in CALL.findall(prose):
        if "…" not in text:
            check(text)


def check(text: str) -> None:
    """ReconError for a call of `recon.run` that would be refused for its name, its profile or its
    sizes.
    """
    call = ast.parse(text, mode="eval").body
    given: dict = {}
    for keyword in call.keywords:
        if keyword.arg or isinstance(keyword.value, ast.Dict):  # **{"attack.steps": 100}
            value = ast.literal_eval(keyword.value)
            given |= {keyword.arg: value} if keyword.arg else value
    sizes = {key: value for key, value in given.items() if key not in ARGUMENTS}
    sizes_of(experiment(ast.literal_eval(call.args[0])), given.get("profile", "laptop"), sizes)


def test_a_call_that_cannot_be_run_is_seen():
    with pytest.raises(ReconError):
        check('recon.run("linear", n_trained=5)')
