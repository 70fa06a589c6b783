"""Every experiment at profile `smoke`, held to what rounding cannot move: invariants, verdicts, and
measured bands.

bands.json is written by benchmarks/rounding.py, which computes every experiment under several
arithmetics, and tests/bands.py says what is compared. Results go where `$RECON_SMOKE_OUT` says (see
tests/stages.py): nbval finds them.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from companion.chapters import ROOT, registry
from tests.bands import allowance, bands, columns, faults, loose, moving
from tests.held import measured, wrong
from tests.invariants import RULES, broken

HERE = Path(__file__).parent
BANDS, MEASURED = measured()
KEPT = sorted(
    file
    for where in ("book/executed/results", "book/paper-size", "book/seeds")
    for file in (ROOT / where).rglob("result.json")
)


def read(file: Path) -> dict:
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
    kept = {name: len(each) - len(moving(each)) for name, each in BANDS.items()}
    assert set(BANDS) == set(MEASURED) == set(registry()) and min(kept.values()) > 5
    assert sum(kept.values()) > 0.8 * sum(map(len, BANDS.values()))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: "/".join(file.parts[-4:-1]))
def test_kept_results_keep_the_invariants(file):
    assert broken(read(file)) == []


# --------------------------------------------------------------------------- what they would notice


def altered(value: object, path: list, new: object) -> object:
    """A copy of a JSON value with one leaf replaced."""
    if not path:
        return new
    key, *rest = path
    inner = altered(value[key], rest, new)
    return (
        {**value, key: inner}
        if isinstance(value, dict)
        else [*value[:key], inner, *value[key + 1 :]]
    )


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


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (["matches", "ncc_0.7"], 9),
        (["nulls", "rows", "ncc_0.6"], 4),
        (["best_null_name", "ncc_0.7"], "rows"),
        (["excess", "ncc_0.6"], 8),
        (["n_train"], 7),
        (["competition", "fdr"], 0.125),
        (["competition", "p_value"], 1.01),
        (["attack", "converged"], True),
        (["attack", "energy", 1], float("nan")),
        (["evidence", "sure"], 10),
        (["evidence", "auc"], 1.7),
        (["observed", 0, "step"], 11),
    ],
)
def test_a_broken_invariant_is_seen(path, new):
    assert broken(GOOD) == [] and broken(altered(GOOD, path, new))


def test_every_rule_speaks_of_something():
    """A rule that no result has the fields of would be none."""
    whole = "".join(file.read_text(encoding="utf-8") for file in KEPT)
    assert len(RULES) == 8 and all(
        f'"{field}"' in whole for field in ("best_null_name", "fdr", "fell")
    )


RUNS = [
    {
        "count": 40,
        "loss": 1.0,
        "end": 113.0,
        "rows": [{"a": 1.0, "n": 3}, {"a": 2.0, "n": 9}],
        "kind": "x",
        "seconds": 3,
    },
    {
        "count": 40,
        "loss": 1.01,
        "end": 474.0,
        "rows": [{"a": 1.0, "n": 3}, {"a": 2.0, "n": 9}],
        "kind": "x",
        "seconds": 9,
    },
]


def test_bands_are_five_times_as_wide_as_the_spread_and_no_wider():
    kept = bands(RUNS)
    assert moving(kept) == {"end"} and "seconds" not in kept
    for path, free, seen in (
        (["loss"], 1.049, 1.051),
        (["count"], 40, 41),
        (["rows", 0, "n"], 3, 4),
        (["rows", 1, "a"], 2.001, 2.1),
        (["kind"], "x", "y"),
        (["end"], 4_000.0, 5_000.0),
        (["seconds"], 1e9, None),
    ):
        assert faults(kept, altered(RUNS[0], path, free)) == {}
        assert seen is None or len(faults(kept, altered(RUNS[0], path, seen))) == 1
    swapped = {**RUNS[0], "rows": RUNS[0]["rows"][::-1]}
    assert set(faults(kept, swapped)) == {"rows[*].a", "rows[*].n"}
    assert set(faults(kept, {**RUNS[0], "rows": RUNS[0]["rows"][:1]})) == {
        "rows#",
        "rows[*].a",
        "rows[*].n",
    }
    assert faults(kept, {**RUNS[0], "more": 1}) and faults(
        kept, {k: v for k, v in RUNS[0].items() if k != "loss"}
    )


def test_a_loose_experiment_has_some_room_for_counts_and_none_for_sizes():
    moved = [RUNS[0], {**RUNS[1], "found": 3}]
    moved[0] = {**moved[0], "found": 4, "other": 7, "n_train": 9}
    moved[1] |= {"other": 7, "n_train": 9}
    kept = bands(moved)
    assert loose(moved) and not loose(RUNS) and allowance(kept) == 2
    for changed, seen in (
        ({"other": 9}, 0),
        ({"other": 10}, 1),
        ({"n_train": 10}, 1),
        ({"found": 9}, 0),
    ):
        assert len(faults(kept, moved[0] | changed)) == seen
    off = moved[0] | {"other": 11, "kind": "y"}
    assert (
        faults(kept, off, allowed=2) == {}
        and len(faults(kept, off | {"count": 43}, allowed=2)) == 3
    )
    assert faults(kept, moved[0] | {"other": 12}, allowed=2) and faults(
        kept, moved[0] | {"n_train": 10}, allowed=2
    )
    assert faults(kept, moved[0] | {"end": 5_000.0}, allowed=2)


# ------------------------------------------------------- no other test compares what rounding moves


def chaotic(name: str) -> set[str]:
    """Fields of an experiment's metrics that are in moving columns only."""
    last = {path: path.replace("[*]", "").rpartition(".")[2] for path in BANDS[name]}
    free = moving(BANDS[name])
    return {last[path] for path in free} - {
        field for path, field in last.items() if path not in free
    }


def exact(source: str, fields: set[str]) -> list[str]:
    """Comparisons of one of these fields with a number by ==, or by `approx` closer than a factor
    of two.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq) for op in node.ops):
            sides = [node.left, *node.comparators]
            named = [
                side for side in sides if isinstance(side, ast.Attribute) and side.attr in fields
            ]
            if named and any(is_literal(side) for side in sides):
                found.append(ast.unparse(node))
    return found


def is_literal(node: ast.expr) -> bool:
    """A number, or `approx` of one, other than zero and one, which theory gives."""
    if isinstance(node, ast.Call) and "approx" in ast.unparse(node.func):
        return is_literal(node.args[0])
    if isinstance(node, ast.UnaryOp):
        return is_literal(node.operand)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and node.value not in (0, 1)
    )


def runs_in(source: str) -> Iterator[str]:
    """Experiments whose smoke result a test file asks for."""
    yield from (name for name in registry() if f'runs("{name}")' in source)


@pytest.mark.parametrize("file", sorted(HERE.glob("test_*.py")), ids=lambda file: file.stem)
def test_no_other_test_compares_a_number_that_rounding_moves(file):
    source = file.read_text(encoding="utf-8")
    assert exact(source, set().union(*map(chaotic, runs_in(source)))) == []


def test_such_a_comparison_is_seen():
    fields = {"end"}
    assert exact("assert m.first.end == 113.4", fields) and exact(
        "assert m.end == pytest.approx(113, rel=0.1)", fields
    )
    assert not exact("assert m.end == 0", fields) and not exact(
        "assert m.loss == 2.5 and m.end < 3", fields
    )


def test_columns_keep_the_order_of_the_file():
    assert columns(RUNS[0])["rows[*].a"] == [1.0, 2.0] and columns(RUNS[0])["rows#"] == [2]
