"""Would the tests notice a wrong result?  Every smoke result is altered in every way of four kinds, one at a time, and
held to what test_smoke.py holds it to.

    python tests/altered.py RESULTS      # a folder with a smoke result of every experiment, on the photographs

A null in the place of what the attack found; numbers that turn a verdict (from chapters/verdicts); two arms in each
other's place; a column of numbers twice as large.  Writes benchmarks/altered.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from companion.chapters import registry  # noqa: E402
from companion.store.record import record  # noqa: E402
from tests.bands import TIMES, columns, moving  # noqa: E402
from tests.chapters.test_verdicts import put  # noqa: E402
from tests.held import measured, wrong  # noqa: E402
from tests.invariants import tables  # noqa: E402

NULLS = ("best_null", "null")
Change = Callable[[Any], None]


def swapped_nulls(metrics: Any) -> Iterator[tuple[str, Change]]:
    """Every table with both `matches` and a null: each in the other's place."""
    for path, table in tables(metrics):
        for null in NULLS:
            if "matches" in table and null in table and table["matches"] != table[null]:

                def change(m: Any, path: str = path, null: str = null) -> None:
                    where = dict(tables(m))[path]
                    where["matches"], where[null] = where[null], where["matches"]

                yield f"{path}: matches and {null}", change


def swapped_arms(metrics: Any) -> Iterator[tuple[str, Change]]:
    """Every two neighbours in a table or a list that have the same fields and other numbers."""
    for path, table in tables({"": metrics}):
        for name, inner in table.items():
            arms = inner if isinstance(inner, dict | list) else {}
            keys = list(arms) if isinstance(arms, dict) else list(range(len(arms)))
            for one, two in zip(keys, keys[1:], strict=False):
                a, b = arms[one], arms[two]
                if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys() and a != b:

                    def change(m: Any, path: str = path, name: str = name, one: Any = one, two: Any = two) -> None:
                        found = dict(tables(m))[path][name] if name else m
                        found[one], found[two] = found[two], found[one]

                    yield f"{path}.{name}: {one} and {two}".lstrip("."), change


def doubled(metrics: Any, free: set[str]) -> Iterator[tuple[str, Change]]:
    """Every column with a number other than zero that rounding does not move freely, all of it twice as large."""
    for path, column in columns(metrics).items():
        if path not in free and any(isinstance(x, float) and x for x in column):
            yield f"{path} twice as large", lambda m, path=path: double(m, path)


def double(value: Any, wanted: str, path: str = "") -> Any:
    """The numbers of one column of a JSON value times two, in place."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, inner in items:
        here = f"{path}.{key}".lstrip(".") if isinstance(value, dict) else f"{path}[*]"
        if isinstance(inner, dict | list):
            double(inner, wanted, here)
        elif here == wanted and isinstance(inner, float) and key not in TIMES:
            value[key] = 2 * inner


def turned(name: str, verdicts: dict[str, str]) -> Iterator[tuple[str, Change]]:
    """For every claim the numbers that give it another verdict, where they need no other sizes."""
    cases = yaml.safe_load((ROOT / "tests" / "chapters" / "verdicts" / f"{name}.yml").read_text(encoding="utf-8"))
    for claim, by_verdict in cases.items():
        for verdict, edits in by_verdict.items():
            if claim in verdicts and verdict != verdicts[claim] and not any(path.startswith(".") for path in edits):

                def change(m: Any, edits: dict[str, Any] = edits) -> None:
                    for path, value in edits.items():
                        put(m, path.split("."), value)

                yield f"{claim}: {verdict}", change


def verdicts(name: str, metrics: dict[str, Any]) -> dict[str, str]:
    """By claim, as the code of today makes them of these metrics at smoke."""
    chosen = registry()[name]
    return {claim.id: claim.verdict for claim in chosen.claims(chosen.metrics(record(metrics)), chosen.sizes["smoke"])}


def noticed(name: str, metrics: dict[str, Any]) -> bool:
    """Whether a test fails on these metrics, or cannot read them."""
    try:
        return bool(wrong(name, metrics, verdicts(name, metrics)))
    except Exception:
        return True


def main(folder: Path) -> None:
    """Alter, compare, write the report."""
    report: dict[str, Any] = {}
    for name in registry():
        text = (folder / name / "result.json").read_text(encoding="utf-8")

        def fresh(text: str = text) -> Any:
            return json.loads(text)["metrics"]

        assert not noticed(name, fresh()), f"{name} is not as measured: run benchmarks/rounding.py"
        kinds = {
            "null for attack": swapped_nulls(fresh()),
            "verdict": turned(name, verdicts(name, fresh())),
            "arms": swapped_arms(fresh()),
            "factor of two": doubled(fresh(), moving(measured()[0][name])),
        }
        for kind, found in kinds.items():
            row = report.setdefault(kind, {"altered": 0, "noticed": 0, "unnoticed": []})
            for what, change in found:
                changed = fresh()
                change(changed)
                if changed != fresh():
                    seen = noticed(name, changed)
                    row["altered"] += 1
                    row["noticed"] += seen
                    row["unnoticed"] += [] if seen else [f"{name}: {what}"]
    (ROOT / "benchmarks" / "altered.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for kind, row in report.items():
        print(f"{kind}: {row['noticed']} of {row['altered']} noticed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
