"""Every experiment at profile `smoke`, held to what rounding cannot move: verdicts and measured
bands (tests/bands.py).

Results go where `$RECON_SMOKE_OUT` says (see the Makefile): nbval finds them.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy

import pytest

from companion.chapters import entries
from tests.bands import MOVES, columns, faults, measured, wrong

BANDS, MEASURED = measured()


def read(file) -> dict:
    return json.loads(file.read_text(encoding="utf-8"))["metrics"]


@pytest.mark.parametrize("name", entries())
def test_a_result_is_what_it_was_but_for_rounding(name, out, runs):
    """If sizes or code have changed on purpose: `python benchmarks/rounding.py NAME` measures the
    bands anew.
    """
    verdicts = {claim.id: claim.verdict for claim in runs(name).claims}
    assert verdicts.keys() == MEASURED[name]["verdicts"].keys()
    assert wrong(name, read(out / name / "result.json"), verdicts) == []


@pytest.mark.parametrize("name", entries())
def test_every_sentence_is_whole(name, runs):
    """Words that lack their numbers leave holes."""
    hole = re.compile(r"^[:,;]|  |\(\)|[(:,] *$|[\w(:] [,;.)]|\bnan\b|\bNone\b")
    for claim in runs(name).claims:
        assert claim.ours and not hole.search(claim.ours) and not hole.search(claim.null), claim.id


def test_most_numbers_are_held_to_something():
    """A band that holds everything would be no test."""
    assert set(BANDS) == set(MEASURED) == set(entries())
    for name, row in MEASURED.items():
        assert row["columns"] == len(BANDS[name]) and set(row["moving"]) <= set(BANDS[name])
    held = {
        name: sum(MOVES not in (band, band[0]) for band in bands.values())
        for name, bands in BANDS.items()
    }
    assert min(held.values()) > 5 and sum(held.values()) > 0.8 * sum(map(len, BANDS.values()))


# --------------------------------------------------------------------------- what they would notice


def change(metrics: dict, path: str, value: object) -> dict:
    """A copy with one leaf replaced."""
    changed = deepcopy(metrics)
    *way, last = path.split("/")
    table = changed
    for key in way:
        table = table[int(key) if isinstance(table, list) else key]
    table[int(last) if isinstance(table, list) else last] = value
    return changed


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
