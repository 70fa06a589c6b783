"""Does nbval notice a wrong result?  Results on disk are altered one at a time, and their chapters compared again.

    python tests/altered.py [--count 60] [--seed 0] [--results build/rounding/smoke/own]

Four kinds of alterations, as many of each: a null in the place of what the attack found, numbers that turn a verdict
(from chapters/verdicts), two arms in each other's place, a column of numbers twice as large.  An alteration of what no
chapter shows counts as unnoticed.  Writes benchmarks/altered.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from companion.chapters import load, registry  # noqa: E402
from tests.bands import TIMES, columns, moving  # noqa: E402
from tests.chapters.test_verdicts import put  # noqa: E402
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


def alterations(results: Path, count: int, seed: int) -> list[tuple[str, str, str, Change]]:
    """(experiment, kind, what, how), drawn by the seed: experiments in turn, then one of what can be altered there."""
    draw, every = random.Random(seed), []
    kept = json.loads((ROOT / "tests" / "chapters" / "bands.json").read_text(encoding="utf-8"))
    for name in registry():
        result = load(results / name, arrays=False)
        metrics = json.loads((results / name / "result.json").read_text(encoding="utf-8"))["metrics"]
        verdicts = {claim.id: claim.verdict for claim in result.claims}
        kinds = {
            "null for attack": swapped_nulls(metrics),
            "verdict": turned(name, verdicts),
            "arms": swapped_arms(metrics),
            "factor of two": doubled(metrics, moving(kept[name])),
        }
        every += [(name, kind, list(found)) for kind, found in kinds.items()]
    chosen = []
    for kind in ("null for attack", "verdict", "arms", "factor of two"):
        able = [(name, found) for name, which, found in every if which == kind and found]
        draw.shuffle(able)
        for k in range(count // 4):
            name, found = able[k % len(able)]
            chosen.append((name, kind, *draw.choice(found)))
    return chosen


def noticed(results: Path, name: str, change: Change) -> bool:
    """Whether nbval fails on the chapter of an experiment whose result is altered."""
    with tempfile.TemporaryDirectory(prefix="recon-altered-") as folder:
        out = Path(folder)
        for each in results.iterdir():
            if (each / "result.json").is_file():
                (out / each.name).symlink_to(each.resolve())
        (out / name).unlink()
        shutil.copytree(results / name, out / name)
        file = out / name / "result.json"
        stored = json.loads(file.read_text(encoding="utf-8"))
        before = copy.deepcopy(stored["metrics"])
        stored.pop("sha256", None)  # a result that is not what its checksum says would be computed again
        change(stored["metrics"])
        assert stored["metrics"] != before
        file.write_text(json.dumps(stored), encoding="utf-8")
        page = f"tests/reference/{registry()[name].chapter}.ipynb"
        command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--nbval", "--nbval-current-env", page]
        env = os.environ | {"RECON_SMOKE_OUT": str(out), "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, env=env, cwd=ROOT, capture_output=True).returncode != 0


def main() -> None:
    """Alter, compare, write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "rounding" / "smoke" / "own")
    arguments = parser.parse_args()
    chosen = alterations(arguments.results, arguments.count, arguments.seed)

    def one(each: tuple[str, str, str, Change]) -> dict[str, Any]:
        name, kind, what, change = each
        found = {"experiment": name, "kind": kind, "what": what, "noticed": noticed(arguments.results, name, change)}
        print("noticed  " if found["noticed"] else "UNNOTICED", f"{name}: {kind}: {what}", flush=True)
        return found

    with ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(one, chosen))
    report = {"seed": arguments.seed, "altered": len(rows), "noticed": sum(row["noticed"] for row in rows)}
    left = [{key: row[key] for key in ("experiment", "kind", "what")} for row in rows if not row["noticed"]]
    text = json.dumps(report | {"unnoticed": left}, indent=1, ensure_ascii=False)
    (ROOT / "benchmarks" / "altered.json").write_text(text + "\n", encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
