"""What computing cost: one line for every run that was started, finished or not, in `ledger.jsonl` beside the results.

Failed and interrupted runs count as well, so that the book can say what all of it took, not only what is shown.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from recon.errors import ReconError

FILE = "ledger.jsonl"


@dataclass(frozen=True)
class Entry:
    """One run: what, how it ended ("done", "failed" or "interrupted"), wall time in seconds, date (UTC)."""

    experiment: str
    profile: str
    data: str
    seed: int
    outcome: str
    seconds: float
    date: str


@contextmanager
def accounted(folder: Path, experiment: str, profile: str, data: str, seed: int) -> Iterator[None]:
    """Time what runs inside, and write its line however it ends; ReconError where that cannot be written."""
    start, outcome = time.perf_counter(), "failed"
    try:
        yield
        outcome = "done"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        seconds = round(time.perf_counter() - start, 2)
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        line = json.dumps(asdict(Entry(experiment, profile, data, seed, outcome, seconds, date)))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / FILE).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            if outcome == "done":
                raise ReconError(f"results cannot be written to {folder}: {error.strerror or error}") from error


def entries(folder: Path) -> list[Entry]:
    """All lines of a ledger; a damaged one is left out, since it only counts."""
    found = []
    try:
        lines = (folder / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            found.append(Entry(**json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            continue
    return found


def peak_memory_mb() -> float:
    """Largest resident memory so far of this process or one of its children, in MB; 0 where nobody counts it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return round(max(usage) * unit / 1e6, 1)
