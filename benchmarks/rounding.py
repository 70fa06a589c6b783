"""How far rounding moves the numbers of every experiment, and whether it turns a verdict.

    python benchmarks/rounding.py [--out DIR] [--jobs 2] [NAME …]

Every experiment is computed at smoke under each of `ARITHMETICS`: instruction sets of PyTorch, MKL
and OpenBLAS, two threads, and pixels nudged by 1e-7 of themselves. Results are kept in
DIR/<arithmetic>, so that an interrupted measurement goes on. It writes tests/chapters/bands.json,
what tests/chapters/test_smoke.py holds a new result to (see tests/bands.py), and
benchmarks/rounding.json: for each experiment how many columns of numbers there are, which move by
more than their size, and for each claim the verdicts that came out, the reference's first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tqdm import tqdm  # noqa: E402

from companion.chapters import entries, load  # noqa: E402
from companion.chapters.run import run  # noqa: E402
from companion.store.results import Claim, read_json  # noqa: E402
from recon.store.files import atomic_path  # noqa: E402
from tests.bands import MOVES, columns, digest  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Nehalem",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4",
}
#: name -> variables of its processes; the first is the reference
ARITHMETICS: dict[str, dict[str, str]] = {
    "own": {},
    "plain": PLAIN,
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
    "avx512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "OPENBLAS_CORETYPE": "SkylakeX",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
    },
    "threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    **{f"nudge-{seed}": {"RECON_NUDGE": str(seed)} for seed in range(1, 7)},
    "plain-nudge": PLAIN | {"RECON_NUDGE": "99"},
}
WIDER = 5  # a band is so many times as wide as the spread that was seen
# relative, for numbers with a decimal point; whole numbers that never moved are compared exactly
LEAST = 1e-3
ROOM = 2  # by so much a count may move where rounding moves others
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
Run = tuple[dict[str, Any], list[Claim]]


def measure(names: Sequence[str], out: Path, arithmetics: Sequence[str], jobs: int) -> None:
    """Compute what is not in `out` yet; `jobs` arithmetics at a time, one process each."""

    def one(arithmetic: str) -> None:
        paths = os.pathsep.join(map(str, (HERE / "nudge", ROOT)))
        env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths, **ARITHMETICS[arithmetic]}
        folder = out / arithmetic
        command = [sys.executable, __file__, "--here", str(folder), *names]
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "log", "w") as log:
            subprocess.run(command, env=env, check=True, stdout=log, stderr=log, cwd=ROOT)

    with ThreadPoolExecutor(jobs) as pool:
        list(
            tqdm(
                pool.map(one, arithmetics), total=len(arithmetics), disable=None, desc="arithmetics"
            )
        )


def compute(names: Sequence[str], folder: Path) -> None:
    """In a process of its own: every experiment in this process's arithmetic."""
    for name in names:
        start = time.process_time()
        run(name, profile="smoke", data="photos", device="cpu", out=folder)
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)


def summary(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Of one experiment, given its results: what moves, and the verdicts."""
    kept = bands([metrics for metrics, _ in runs.values()])
    verdicts: dict[str, dict[str, int]] = {}
    for _, claims in runs.values():
        for claim in claims:
            count = verdicts.setdefault(claim.id, {})
            count[claim.verdict] = count.get(claim.verdict, 0) + 1
    moves = loose([metrics for metrics, _ in runs.values()]) or any(
        len(each) > 1 for each in verdicts.values()
    )
    return {
        "columns": len(kept),
        "moving": sorted(moving(kept)),
        "loose": moves,
        "verdicts": verdicts,
    }


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


def moving(kept: dict[str, Any]) -> set[str]:
    """Columns that rounding moves by more than their own size, or at all if they are no numbers."""
    return {path for path, each in kept.items() if each == MOVES or each[0] == MOVES}


def _short(number: float) -> float:
    return float(f"{number:.8g}")


def results(out: Path, name: str, arithmetics: Sequence[str]) -> dict[str, Run]:
    """Arithmetic -> metrics as the file has them, and the claims by today's rules; where it was
    computed.
    """
    folders = {each: out / each / name for each in arithmetics}
    there = {each: folder for each, folder in folders.items() if (folder / "result.json").is_file()}
    return {
        each: (read_json(folder / "result.json")["metrics"], load(folder, arrays=False).claims)
        for each, folder in there.items()
    }


def write(names: Sequence[str], out: Path, arithmetics: Sequence[str]) -> None:
    """benchmarks/rounding.json, and the bands; experiments that there are no more leave both."""
    found = {name: results(out, name, arithmetics) for name in names}

    def put(file: Path, new: dict[str, Any], old: dict[str, Any]) -> None:
        text = ",\n".join(
            f" {json.dumps(name)}: {_rows(value)}"
            for name, value in sorted((old | new).items())
            if name in entries()
        )
        with atomic_path(file) as temporary:
            temporary.write_text("{\n" + text + "\n}\n", encoding="utf-8")

    def before(file: Path) -> dict[str, Any]:
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    report, file = HERE / "rounding.json", ROOT / "tests" / "chapters" / "bands.json"
    put(report, {name: summary(runs) for name, runs in found.items()}, before(report))
    put(
        file,
        {name: bands([metrics for metrics, _ in runs.values()]) for name, runs in found.items()},
        before(file),
    )


def _rows(value: dict[str, Any]) -> str:
    """JSON in lines of some 110 characters, where its entries are short."""
    entries = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()]
    lines = [""]
    for each in entries:
        if lines[-1] and len(lines[-1]) + len(each) > 110:
            lines.append("")
        lines[-1] += f"{each}, "
    return "{\n  " + "\n  ".join(lines).rstrip(", ") + "\n }"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments; default all")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "rounding")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or list(entries())
    if unknown := set(names) - set(entries()):
        parser.error(f"unknown experiment '{min(unknown)}'")
    if arguments.here:
        compute(names, arguments.here)
        return
    measure(names, arguments.out, list(ARITHMETICS), arguments.jobs)
    write(names, arguments.out, list(ARITHMETICS))


if __name__ == "__main__":
    main()
