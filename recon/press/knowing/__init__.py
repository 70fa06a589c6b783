"""The map of knowing: every network of the book at what its adversary knows, and at how much they are told.

Each point is read from a result file.  How much they are told is p / (d m): numbers released for each number that they
miss, p weights or entries of a gradient over the m images of d values that they do not have.  m = n, the size of the
training set, unless all images but one are known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recon.chapters import load
from recon.press.knowing.gradients import GRADIENTS
from recon.press.knowing.point import KNOWLEDGE, NETWORKS, RANKED, Point, Reader, told
from recon.press.knowing.weights import UNDISTURBED, WEIGHTS, noisy
from recon.store.results import Result

READERS: dict[str, Reader] = WEIGHTS | GRADIENTS
#: whose kept run has other networks than the edition's: both are on the map
BOTH = ("architectures-simulated",)


def found_in(root: Path, results: Path, name: str) -> Result[Any]:
    """The run kept at the paper's size where there is one, else the edition's; ReconError where neither is."""
    kept = root / "book" / "paper-size" / name
    return load(kept if (kept / "result.json").is_file() else results / name, arrays=False)


def points(root: Path, results: Path) -> list[Point]:
    """All of them, in the order of the book."""
    found: list[Point] = []
    for name, reader in READERS.items():
        runs = [found_in(root, results, name)]
        if name in BOTH:
            runs.append(load(results / name, arrays=False))
        for result in {run.made.profile: run for run in runs}.values():
            found += reader(result.metrics, result.made.config)
    return found


__all__ = ["KNOWLEDGE", "NETWORKS", "RANKED", "READERS", "UNDISTURBED", "Point", "found_in", "noisy", "points", "told"]
