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
    assert 1 <= len(exercises) <= 3 and len(solutions) == len(exercises)
    assert "redict before you run" in prose.split("## Exercises")[1].split("\n2. ")[0]
    for number, cell in enumerate(solutions, 1):
        source = "".join(cell["source"])
        assert cell["id"] == f"solution-{number}" and source.startswith("# ") and "print(" in source
        assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_what_to_try_can_be_run(path):
    """Names, profiles and fields of every call in prose; to run them all would take the tests half
    an hour.
    """
    prose, _ = parts(path)
    assert re.search(r"\*\*Try it\.\*\*.{0,400}?```python\n[^`]*recon\.run\(", prose, re.DOTALL)
    calls = [found for found in CALL.findall(prose) if "…" not in found]
    for text in calls:
        check(text)


def check(text: str) -> None:
    """ReconError for a call of `recon.run` that would be refused for its name, its profile or its
    sizes.
    """
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    given: dict = {}
    for each in call.keywords:
        if each.arg is not None:
            given[each.arg] = ast.literal_eval(each.value)
        elif isinstance(each.value, ast.Dict):  # **{"attack.steps": 100}
            given |= ast.literal_eval(each.value)
    name = ast.literal_eval(call.args[0])
    sizes = {key: value for key, value in given.items() if key not in ARGUMENTS}
    sizes_of(experiment(name), given.get("profile", "laptop"), sizes)


WRONG = ('recon.run("linear", n_trained=5)', 'recon.run("lin")', 'recon.run("linear", n_train="x")')


@pytest.mark.parametrize("text", WRONG)
def test_a_call_that_cannot_be_run_is_seen(text):
    check('recon.run("linear", n_train=20, seed=3)')
    with pytest.raises(ReconError):
        check(text)
