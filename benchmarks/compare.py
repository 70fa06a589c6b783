"""Two editions side by side: `python benchmarks/compare.py OLD NEW` says where their metrics differ, and by how much.

OLD, NEW: folders with NAME/result.json.  A number agrees within the tolerance of the pinned smoke metrics
(tests/chapters/test_smoke.py): 1 % and, for counts, two.  Times are left out.  Writes benchmarks/compare.json.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

RELATIVE, COUNT = 0.01, 2
TIMES = ("seconds", "recon_seconds", "train_seconds", "kernel_seconds", "reached")


def numbers(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a JSON value with its place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in TIMES:
                yield from numbers(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from numbers(inner, f"{path}[{k}]")
    else:
        yield path, value


def agrees(old: object, new: object) -> bool:
    """Equal; as numbers, within the tolerance."""
    if isinstance(old, bool) or isinstance(new, bool) or not isinstance(old, int | float):
        return old == new
    if not isinstance(new, int | float):
        return False
    if isinstance(old, int) and isinstance(new, int):
        return abs(old - new) <= max(COUNT, RELATIVE * abs(old))
    return (math.isnan(old) and math.isnan(new)) or math.isclose(old, new, rel_tol=RELATIVE, abs_tol=1e-9)


def compared(old: dict, new: dict) -> dict:
    """How many numbers are there, are equal, agree, and which do not."""
    before, after = dict(numbers(old)), dict(numbers(new))
    both = [place for place in before if place in after]
    differ = {p: [before[p], after[p]] for p in both if not agrees(before[p], after[p])}
    equal = sum(before[p] == after[p] or before[p] != before[p] for p in both)
    gone, come = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    return {"numbers": len(both), "equal": equal, "within": len(both) - len(differ), "differ": differ} | (
        {"gone": gone, "new": come} if gone or come else {}
    )


def main(old: Path, new: Path) -> None:
    """Compare every experiment that both folders hold."""
    report = {}
    for file in sorted(new.glob("*/result.json")):
        name = file.parent.name
        if (old / name / "result.json").is_file():
            pair = [json.loads((folder / name / "result.json").read_text())["metrics"] for folder in (old, new)]
            report[name] = found = compared(*pair)
            print(f"{name:22} {found['numbers']:6} numbers, {found['equal']:6} equal, {found['within']:6} within 1 %")
    text = json.dumps(report, indent=1) + "\n"
    (Path(__file__).parent / "compare.json").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
