"""Is a smoke result what it was, but for rounding?

chapters/bands.json has the numbers of every experiment by column, `nets[*].auc` being the list of
that number over all networks: mean, mean weighted by 1 … N (which sees two rows that change
places), and how far each may move. benchmarks/rounding.py, which is run by hand, measures that.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TIMES = ("seconds", "milliseconds", "recon_seconds", "train_seconds", "kernel_seconds", "reached")
#: what is kept of a column that rounding moves by more than its own size, with the largest seen
MOVES = "moves"
#: where rounding turns counts, few columns may be outside their band, by this factor at most
FAR = 2


def columns(metrics: dict[str, Any]) -> dict[str, list[Any]]:
    """Column -> its leaves, in the order of the file; times are left out."""
    table: dict[str, list[Any]] = {}
    for path, leaf in leaves(metrics):
        table.setdefault(path, []).append(leaf)
    return table


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a JSON value with its column; "#" ends the column of a list's length."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in TIMES:
                yield from leaves(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        yield f"{path}#", len(value)
        for inner in value:
            yield from leaves(inner, f"{path}[*]")
    else:
        yield path, value


def digest(column: Sequence[Any]) -> tuple[float, float] | str:
    """(mean, mean weighted by 1 … N) of numbers; other columns as one text."""
    if all(map(is_number, column)):
        return float(np.mean(column)), float(np.average(column, weights=range(1, len(column) + 1)))
    text = "|".join(map(str, column))
    return text if len(text) < 60 else hashlib.sha256(text.encode()).hexdigest()[:12]


def is_number(leaf: object) -> bool:
    """Whether a leaf is compared by size: no truth value, no infinity."""
    return isinstance(leaf, int | float) and not isinstance(leaf, bool) and math.isfinite(leaf)


def within(band: list[Any] | str, column: Sequence[Any], wider: float = 1.0) -> bool:
    """Whether a column lies in the band that is kept of it, or in one so many times as wide."""
    if band == MOVES:
        return True
    numbers = digest(column)
    if isinstance(numbers, str) or isinstance(band, str):
        return numbers == band
    if band[0] == MOVES:
        return max(map(abs, column)) <= 10 * band[1] + 1e-6
    count = len(band) // 2  # one number has no weighted mean of its own
    allowed = wider * np.array(band[count:]) + 1e-6 * np.abs(band[:count])
    return bool((np.abs(np.subtract(numbers[:count], band[:count])) <= allowed).all())


@cache
def measured() -> tuple[dict[str, Any], dict[str, Any]]:
    """Bands, and by experiment whether it is loose (rounding turns a count or a verdict) and which
    verdicts each claim had.
    """
    bands = (ROOT / "tests" / "chapters" / "bands.json").read_text(encoding="utf-8")
    report = (ROOT / "benchmarks" / "rounding.json").read_text(encoding="utf-8")
    return json.loads(bands), json.loads(report)


def faults(bands: dict[str, Any], metrics: dict[str, Any], allowed: int = 0) -> list[str]:
    """Columns that are gone, new, or outside their band; so many may be outside, if not by far."""
    table = columns(metrics)
    gone = [path for path in bands if path not in table and bands[path] != MOVES]
    new = [path for path in table if path not in bands]
    outside = [path for path in table if path in bands and not within(bands[path], table[path])]
    far = [path for path in outside if not within(bands[path], table[path], FAR)]
    if len(outside) <= allowed and all(isinstance(bands[path], str) for path in far):
        outside = []
    return gone + new + outside


def wrong(name: str, metrics: dict[str, Any], verdicts: dict[str, str]) -> list[str]:
    """What is not as measured; where rounding turns verdicts, another one may turn."""
    bands, report = measured()[0][name], measured()[1][name]
    allowed = max(2, len(bands) // 50) if report["loose"] else 0
    turned = [
        f"{claim} is {verdicts.get(claim)}"
        for claim, seen in report["verdicts"].items()
        if len(seen) == 1 and verdicts.get(claim) not in seen
    ]
    if len(turned) <= report["loose"]:
        turned = []
    return [*faults(bands, metrics, allowed), *turned]
