"""Every experiment at profile `smoke`, held to what rounding cannot move: invariants, verdicts, and
measured bands (tests/bands.py).

Results go where `$RECON_SMOKE_OUT` says (see tests/stages.py): nbval finds them.
"""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from companion.chapters import ROOT, registry
from tests.bands import MOVES, columns, faults, measured, wrong
from tests.invariants import broken

BANDS, MEASURED = measured()
KEPT = sorted(
    file
    for folder in ("book/executed/results", "book/paper-size", "book/seeds")
    for file in (ROOT / folder).rglob("result.json")
)


def read(file) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))["metrics"]


@pytest.mark.parametrize("name", registry())
def test_a_result_is_what_it_was_but_for_rounding(name, out, runs):
    """If sizes or code have changed on purpose: `python benchmarks/rounding.py NAME` measures the
    bands anew.
    """
    verdicts = {claim.id: claim.verdict for claim in runs(name).claims}
    assert verdicts.keys() == MEASURED[name]["verdicts"].keys()
    assert wrong(name, read(out / name / "result.json"), verdicts) == []


def test_most_numbers_are_held_to_something():
    """A band that holds everything would be no test."""
    assert set(BANDS) == set(MEASURED) == set(registry())
    held = {
        name: sum(MOVES not in (band, band[0]) for band in bands.values())
        for name, bands in BANDS.items()
    }
    assert min(held.values()) > 5 and sum(held.values()) > 0.8 * sum(map(len, BANDS.values()))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: "/".join(file.parts[-4:-1]))
def test_kept_results_keep_the_invariants(file):
    assert broken(read(file)) == []


# --------------------------------------------------------------------------- what they would notice

GOOD = {
    "n_train": 9,
    "matches": {"ncc_0.6": 8, "ncc_0.7": 5},
    "nulls": {"rows": {"ncc_0.6": 3, "ncc_0.7": 1}, "held_out": {"ncc_0.6": 2, "ncc_0.7": 2}},
    "best_null": {"ncc_0.6": 3, "ncc_0.7": 2},
    "best_null_name": {"ncc_0.6": "rows", "ncc_0.7": "held_out"},
    "excess": {"ncc_0.6": 5, "ncc_0.7": 3},
    "competition": {"targets": 8, "decoys": 1, "fdr": 0.25, "p_value": 0.01},
    "attack": {"fell": 0.02, "converged": False, "energy": [3.0, 2.0]},
    "observed": [{"step": 1}, {"step": 10}],
    "evidence": {"candidates": 9, "true": 8, "sure": 4, "auc": 0.9},
}


def change(metrics: dict, path: str, value: object) -> dict:
    """A copy with one leaf replaced."""
    changed = deepcopy(metrics)
    *way, last = path.split("/")
    table = changed
    for key in way:
        table = table[int(key) if isinstance(table, list) else key]
    table[int(last) if isinstance(table, list) else last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("matches/ncc_0.7", 9),
        ("nulls/rows/ncc_0.6", 4),
        ("best_null_name/ncc_0.7", "rows"),
        ("excess/ncc_0.6", 8),
        ("n_train", 7),
        ("competition/fdr", 0.125),
        ("competition/p_value", 1.01),
        ("attack/converged", True),
        ("attack/energy/1", float("nan")),
        ("evidence/sure", 10),
        ("observed/0/step", 11),
    ],
)
def test_a_broken_invariant_is_seen(path, value):
    assert broken(GOOD) == [] and broken(change(GOOD, path, value))


def test_a_number_outside_its_band_is_seen():
    metrics = {
        "count": 40,
        "loss": 1.0,
        "end": 113.0,
        "rows": [{"a": 1.0}, {"a": 2.0}],
        "kind": "x",
    }
    bands = {
        "count": [40.0, 0.0],
        "loss": [1.0, 0.05],
        "end": [MOVES, 474.0],
        "rows#": [2.0, 0.0],
        "rows[*].a": [1.5, 5 / 3, 0.0015, 0.0017],
        "kind": "x",
    }
    assert columns(metrics)["rows[*].a"] == [1.0, 2.0] and faults(bands, metrics) == []
    assert faults(bands, metrics | {"seconds": 3.0}) == []
    for path, value in (
        ("count", 41),
        ("loss", 1.051),
        ("end", 5000.0),
        ("kind", "y"),
        ("rows/1/a", 2.1),
        ("rows", [{"a": 2.0}, {"a": 1.0}]),
        ("rows", [{"a": 1.5}]),
        ("more", 1),
    ):
        assert faults(bands, change(metrics, path, value)), path
    assert faults(bands, metrics | {"loss": 1.07}, allowed=1) == []
    assert faults(bands, metrics | {"loss": 1.2}, allowed=1) == ["loss"]
