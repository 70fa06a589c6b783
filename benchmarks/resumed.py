"""Long benchmarks that go on where they were: one line of JSON for each part that is done, below
build/.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parents[1] / "build" / "benchmarks"


def each(
    benchmark: str, names: Sequence[str], one: Callable[[str], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """`one(name)` of every name, in order; those that an earlier run has finished are read.

    Delete build/benchmarks/<benchmark>.jsonl to measure anew: nothing else notices that the code
    has changed.
    """
    path, found = _path(benchmark), finished(benchmark)
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name not in found:
            found[name] = one(name)
            line = json.dumps({name: found[name]})
            with path.open("a", encoding="utf-8") as file:
                # on a line of its own, whatever a kill has left of the last
                file.write(f"\n{line}\n")
            print(line, flush=True)
    return {name: found[name] for name in names}


def finished(benchmark: str) -> dict[str, dict[str, Any]]:
    """What earlier runs have finished, by name."""
    path, found = _path(benchmark), {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        with suppress(ValueError):  # killed while it was written
            found |= json.loads(line)
    return found


def _path(benchmark: str) -> Path:
    return BUILD / f"{Path(benchmark).stem}.jsonl"
