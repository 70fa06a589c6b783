"""Every verdict can come out otherwise: verdicts/NAME.yml gives each claim of an experiment at least two verdicts, each
with the numbers that lead to it.

The numbers replace leaves of the pinned smoke metrics (smoke/NAME.json), by a path with dots; `.sizes: paper` in their
place judges them at the sizes of that profile, `.rename: {OLD: NEW}` gives a row another network's name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from recon.chapters import registry
from recon.store.results import Claim

HERE = Path(__file__).parent


def cases(name: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Claim -> verdict -> edits."""
    return yaml.safe_load((HERE / "verdicts" / f"{name}.yml").read_text(encoding="utf-8"))


def judged(name: str, edits: dict[str, Any]) -> dict[str, Claim]:
    """The claims of the pinned metrics after the edits, by id."""
    chosen = registry()[name]
    metrics = json.loads((HERE / "smoke" / f"{name}.json").read_text())
    sizes = chosen.sizes[edits.get(".sizes", "smoke")]
    for old, new in edits.get(".rename", {}).items():
        metrics[new] = metrics.pop(old)
    for path, value in edits.items():
        if not path.startswith("."):
            put(metrics, path.split("."), value)
    read = TypeAdapter(chosen.metrics).validate_json(json.dumps(metrics), strict=True)
    return {claim.id: claim for claim in chosen.claims(read, sizes)}


def put(tree: Any, path: list[str], value: Any) -> None:
    """Replace the leaf at the path; a missing one is an error.  A number may hold the dot of its own: "0/5" is 0.5."""
    *way, last = [step.replace("/", ".") for step in path]
    for step in way:
        tree = tree[int(step) if isinstance(tree, list) else step]
    last = int(last) if isinstance(tree, list) else last
    tree[last]  # noqa: B018  (raises)
    tree[last] = value


@pytest.mark.parametrize("name", list(registry()))
def test_every_claim_has_two_verdicts(name):
    found = cases(name)
    wanted = {*judged(name, {}), *judged(name, {".sizes": "laptop"}), *judged(name, {".sizes": "paper"})}
    assert set(found) == wanted
    assert not [claim for claim, verdicts in found.items() if len(verdicts) < 2]


@pytest.mark.parametrize(
    ("name", "claim", "wanted", "edits"),
    [
        pytest.param(name, claim, wanted, edits, id=f"{claim}: {wanted}")
        for name in registry()
        if (HERE / "verdicts" / f"{name}.yml").is_file()
        for claim, verdicts in cases(name).items()
        for wanted, edits in verdicts.items()
    ],
)
def test_the_numbers_decide(name, claim, wanted, edits):
    assert judged(name, edits)[claim].verdict == wanted
