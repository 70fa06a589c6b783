"""How long a run took in all, when it was interrupted and went on: each part until the last file that it saved."""

from __future__ import annotations

import json
import time
from pathlib import Path

from recon.store.files import atomic_path

PARTS = "parts.json"


def begin(checkpoints: Path) -> float:
    """Seconds that the earlier parts of a run took, by the clock; notes in `checkpoints` that another begins now.

    A part that was killed says nothing any more: it lasted until the last of its checkpoints, and what it did after
    that is done again.  ReconError where the folder cannot be written.
    """
    path, now = checkpoints / PARTS, time.time()
    saved = [file.lstat().st_mtime for file in checkpoints.rglob("*.safetensors")]
    parts = _read(path)
    if parts:
        start, end = parts[-1]
        parts[-1] = [start, max([start, end, *saved])]
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps([*parts, [now, now]]), encoding="utf-8")
    return sum(end - start for start, end in parts)


def _read(path: Path) -> list[list[float]]:
    """[start, end] of every part; none where the file cannot be read, which costs a number and nothing else."""
    if not path.is_file():  # a pipe would be waited for without end
        return []
    try:
        return [[float(start), float(end)] for start, end in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, RecursionError, MemoryError):
        return []
