"""Every verdict can come out otherwise: verdicts/NAME.yml gives each claim of an experiment at
least two verdicts, each with the numbers that lead to it, or a list of such cases.

The numbers replace leaves of a smoke run's metrics, by a path with dots, and have to be all that
the verdict depends on; `.sizes: paper` in their place judges them at the sizes of that profile,
`.rename: {OLD: NEW}` gives a row another network's name, `.copy: {NEW: OLD}` another network the
same row, before the numbers are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from companion.chapters import entries, experiment
from companion.store.record import record
from companion.store.results import Claim

HERE = Path(__file__).parent


def cases(name: str) -> dict[str, dict[str, Any]]:
    """Claim -> verdict -> edits, or a list of them."""
    return yaml.safe_load((HERE / "verdicts" / f"{name}.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def judged(runs, out) -> Callable[[str, dict[str, Any]], dict[str, Claim]]:
    """(name, edits) -> the claims of a smoke run's metrics after the edits, by id."""

    @cache
    def smoke(name: str) -> str:
        runs(name)
        return json.dumps(
            json.loads((out / name / "result.json").read_text(encoding="utf-8"))["metrics"]
        )

    return lambda name, edits: judge(name, json.loads(smoke(name)), edits)


def judge(name: str, metrics: dict[str, Any], edits: dict[str, Any]) -> dict[str, Claim]:
    """The claims of metrics after the edits."""
    chosen = experiment(name)
    sizes = chosen.sizes[edits.get(".sizes", "smoke")]
    for old, new in edits.get(".rename", {}).items():
        metrics[new] = metrics.pop(old)
    for new, old in edits.get(".copy", {}).items():
        metrics[new] = deepcopy(metrics[old])
    for path, value in edits.items():
        if not path.startswith("."):
            put(metrics, path.split("."), value)
    read = chosen.metrics(record(metrics))
    return {claim.id: claim for claim in chosen.claims(read, sizes)}


def put(tree: Any, path: list[str], value: Any) -> None:
    """Replace the leaf at the path; a missing one is an error. A number may hold the dot of its
    own: "0/5" is 0.5. "*" is every entry of a list or an object.
    """
    *way, last = [step.replace("/", ".") for step in path]
    for k, step in enumerate(way):
        if step == "*":
            for entry in tree.values() if isinstance(tree, dict) else tree:
                put(entry, path[k + 1 :], value)
            return
        tree = tree[int(step) if isinstance(tree, list) else step]
    last = int(last) if isinstance(tree, list) else last
    tree[last]  # noqa: B018  (raises)
    tree[last] = value


@pytest.mark.parametrize("name", list(entries()))
def test_every_claim_has_two_verdicts(name, judged):
    found = cases(name)
    wanted = {
        *judged(name, {}),
        *judged(name, {".sizes": "laptop"}),
        *judged(name, {".sizes": "paper"}),
    }
    assert set(found) == wanted
    assert not [claim for claim, verdicts in found.items() if len(verdicts) < 2]


@pytest.mark.parametrize(
    ("name", "claim", "wanted", "edits"),
    [
        pytest.param(name, claim, wanted, edits, id=f"{claim}: {wanted}")
        for name in entries()
        if (HERE / "verdicts" / f"{name}.yml").is_file()
        for claim, verdicts in cases(name).items()
        for wanted, numbers in verdicts.items()
        for edits in (numbers if isinstance(numbers, list) else [numbers])
    ],
)
def test_the_numbers_decide(name, claim, wanted, edits, judged):
    assert judged(name, edits)[claim].verdict == wanted
