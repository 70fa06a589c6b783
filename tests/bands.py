"""How far rounding moves a number, and whether another one lies within.

benchmarks/rounding.py computes every experiment under several arithmetics. What it finds is kept as
*bands*, in chapters/bands.json, and is five times as wide as what it saw. A number that moves by
more than its own size is not compared.

An experiment is *loose* where rounding moves a count or turns a verdict: then it may move others
that were not seen to move. There counts have some room, and few columns and one verdict may be
elsewhere.

Metrics are compared by column: `nets[*].auc` is the list of that number over all networks, in their
order. Of a column two numbers are kept, the mean and the mean weighted by 1 … N, so that two rows
in each other's place are seen.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

WIDER = 5  # a band is so many times as wide as the spread that was seen
# relative, for numbers with a decimal point; whole numbers that never moved are compared exactly
LEAST = 1e-3
#: a number that moves by more than its size stays below so many times the largest that was seen;
#: one that is nought but for rounding, below the second
ORDERS, NOUGHT = (10, 100), 1e-6
TIMES = ("seconds", "recon_seconds", "train_seconds", "kernel_seconds", "reached")
MOVES = "moves"
NEAR = 2  # of a loose experiment few columns may be outside their band, by so many times its width
ROOM = 2  # by so much a count of a loose experiment may move that was not seen to
#: whole numbers that are sizes, not counts of what was found
SIZES = (
    "n",
    "n_train",
    "m",
    "k",
    "width",
    "steps",
    "step",
    "dim",
    "side",
    "depth",
    "classes",
    "images",
    "seeds",
    "index",
)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a JSON value with its column; times are left out."""
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


def columns(metrics: dict[str, Any]) -> dict[str, list[Any]]:
    """Column -> its leaves, in the order of the file."""
    found: dict[str, list[Any]] = {}
    for path, leaf in leaves(metrics):
        found.setdefault(path, []).append(leaf)
    return found


def is_number(leaf: object) -> bool:
    """Whether a leaf is compared by size: no truth value, no infinity."""
    return isinstance(leaf, int | float) and not isinstance(leaf, bool) and math.isfinite(leaf)


def digest(column: Sequence[Any]) -> tuple[float, float] | str:
    """(mean, mean weighted by 1 … N) of numbers; other columns as one text."""
    if all(map(is_number, column)):
        n = len(column)
        return sum(column) / n, sum(k * x for k, x in enumerate(column, 1)) / (n * (n + 1) / 2)
    text = "|".join(map(str, column))
    return text if len(text) < 60 else hashlib.sha256(text.encode()).hexdigest()[:12]


def band(seen: Sequence[Sequence[Any]], room: float = 0.0) -> list[Any] | str:
    """What is kept of a column, given as it came out under every arithmetic; the first is the
    reference.

    [mean, weighted mean, half width, half width], of one number [number, half width] · a text ·
    ["moves", largest size seen], or "moves" alone where not even the kind of leaf or their number
    stays.

    Args:
        room: for the sum of whole numbers.
    """
    found = [digest(column) for column in seen]
    if all(isinstance(each, str) for each in found):
        return found[0] if len(set(found)) == 1 else MOVES  # type: ignore[return-value]
    if any(isinstance(each, str) for each in found) or len({len(column) for column in seen}) > 1:
        return MOVES
    spreads = [max(each) - min(each) for each in zip(*found, strict=True)]
    sizes = [sum(map(abs, column)) / len(column) for column in seen]
    if max(spreads) > min(sizes):
        return [MOVES, _short(max(abs(x) for column in seen for x in column))]
    whole = all(isinstance(leaf, int) for column in seen for leaf in column)
    least = room / len(seen[0]) ** 0.5 if whole else LEAST * sizes[0]
    halves = [_short(max(WIDER * spread, least)) for spread in spreads]
    return (
        [*map(_short, found[0]), *halves] if len(seen[0]) > 1 else [_short(found[0][0]), halves[0]]
    )


def widened(kept: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """Bands that hold these metrics too, made on a processor that was not measured before: a column
    that lies outside gets five times the distance, or moves where that is more than its size; one
    that is gone or new moves.
    """
    now = columns(metrics)

    def wider(path: str) -> list[Any] | str:
        if path not in kept or path not in now:
            return MOVES
        old, column = kept[path], now[path]
        found = digest(column)
        if within(old, column):
            return old
        if isinstance(old, str) or isinstance(found, str):
            return MOVES
        largest = max(map(abs, column))
        if old[0] == MOVES:
            return [MOVES, _short(largest)]
        half = len(old) // 2
        away = [abs(one - two) for one, two in zip(found, old[:half], strict=False)]
        if max(away) > min(sum(map(abs, column)) / len(column), max(map(abs, old[:half]))):
            return [MOVES, _short(max(largest, *map(abs, old[:half])))]
        return [
            *old[:half],
            *(_short(max(WIDER * d, h)) for d, h in zip(away, old[half:], strict=True)),
        ]

    return {path: wider(path) for path in dict.fromkeys([*kept, *now])}


def within(kept: list[Any] | str, column: Sequence[Any], wider: float = 1.0) -> bool:
    """Whether a column lies in the band that is kept of it, or in one so many times as wide."""
    if kept == MOVES:
        return True
    now = digest(column)
    if isinstance(now, str) or isinstance(kept, str):
        return now == kept
    if kept[0] == MOVES:
        return max(map(abs, column)) <= ORDERS[kept[1] < NOUGHT] * kept[1]
    half = len(kept) // 2
    pairs = zip(now[:half], kept[:half], kept[half:], strict=True)
    return all(abs(new - old) <= wider * half + 1e-6 * abs(old) for new, old, half in pairs)


def faults(kept: dict[str, Any], metrics: dict[str, Any], allowed: int = 0) -> dict[str, Any]:
    """Column -> (band, what is there now) where a column is gone, new, or outside its band; so many
    may be outside, if it is not by more than `NEAR` times its width.
    """
    now = columns(metrics)
    gone = {path: (kept[path], "gone") for path in kept.keys() - now.keys() if kept[path] != MOVES}
    new = {path: ("not there", digest(now[path])) for path in now.keys() - kept.keys()}
    off = {
        path: (kept[path], digest(now[path]))
        for path in kept.keys() & now.keys()
        if not within(kept[path], now[path])
    }
    near = [
        path for path in off if isinstance(kept[path], str) or within(kept[path], now[path], NEAR)
    ]
    return gone | new | (off if len(off) > len(near) or len(off) > allowed else {})


def loose(runs: Sequence[dict[str, Any]]) -> bool:
    """Whether rounding moves a whole number, a text or a truth value of an experiment's metrics."""
    found = [
        {
            path: column
            for path, column in columns(metrics).items()
            if not any(isinstance(x, float) for x in column)
        }
        for metrics in runs
    ]
    return any(each != found[0] for each in found)


def allowance(kept: dict[str, Any]) -> int:
    """How many columns of a loose experiment may be outside: one in fifty, two at least."""
    return max(2, len(kept) // 50)


def bands(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The bands of an experiment's metrics, given them under every arithmetic."""
    found = [columns(metrics) for metrics in runs]
    every = dict.fromkeys(path for each in found for path in each)
    always = {path for path in every if all(path in each for each in found)}
    room = ROOM if loose(runs) else 0.0

    def of(path: str) -> list[Any] | str:
        is_size = path.endswith("#") or path.replace("[*]", "").rpartition(".")[2] in SIZES
        return band([each[path] for each in found], 0.0 if is_size else room)

    return {path: of(path) if path in always else MOVES for path in every}


def moving(kept: dict[str, Any]) -> set[str]:
    """Columns that rounding moves by more than their own size, or at all if they are no numbers."""
    return {path for path, each in kept.items() if each == MOVES or each[0] == MOVES}


def _short(number: float) -> float:
    return float(f"{number:.8g}")
