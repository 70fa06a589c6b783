"""What the benchmarks share: timing against noisy neighbours, a sweep, and a report written
atomically.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch

from recon.store.files import atomic_path
from recon.store.machine import device_name, versions


def seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Best of `repeat`: the least disturbed by neighbours."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def side_by_side(calls: dict[str, Callable[[], object]], repeat: int = 5) -> dict[str, float]:
    """Best of `repeat` for every call, taken in turns: a slow minute of the machine hits all of
    them.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeat):
        for name, call in calls.items():
            best[name] = min(best[name], seconds(call, repeat=1))
    return best


def one_by_one(unit, names, label):
    """A sweep without processes."""
    return {name: unit(name) for name in names}


def write(report: dict, benchmark: str) -> None:
    """Write `<benchmark>.json` beside the script, with peak memory, device and versions; print
    it.
    """
    report |= {
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "device": device_name(torch.device("cpu")),
        "versions": versions(),
    }
    with atomic_path(Path(benchmark).with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
