"""Do the unit tests of the science notice a wrong line? `make mutants`: a sample of one-line
faults, by Cosmic Ray.

Every fault is put into a copy of the checkout, where the tests of the faulty module run:
tests/FOLDER/test_MODULE*.py and those of the folder that import it, else all of tests/FOLDER. A
fault that they do not notice is listed with its line. Faults in what is only said (annotations, the
words of errors, docstrings) are none.
Survivors that change nothing, or only what is shown, are named in tests/mutants.yml with the
reason; the report, benchmarks/mutants.json, counts them apart.

`--planted`: instead the faults of benchmarks/planted.yml, in what experiments compute; the tests
are those of the experiment's smoke run. The report is benchmarks/planted.json.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from queue import Queue

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("nets", "optim", "training", "attacks", "scoring", "analysis")
SMOKE = "tests/chapters/test_smoke.py::test_a_result_is_what_it_was_but_for_rounding"
FROZEN = "tests/test_architecture.py::test_settings_and_results_are_values_that_nobody_changes"
TIMEOUT_S = 240
#: too easy: they crash at once, whatever the tests say
CRASHES = (
    "ZeroIterationForLoop",
    "ExceptionReplacer",
    "LShift",
    "RShift",
    "BitAnd",
    "BitOr",
    "BitXor",
)


@dataclass(frozen=True)
class Mutant:
    """One fault: file, the operator of Cosmic Ray and which of its places in the file, and what it
    does to the line.
    """

    path: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str


def mutants(seed: int, count: int) -> list[Mutant]:
    """A sample, drawn by the seed, of all that Cosmic Ray can do to the science."""
    from cosmic_ray.commands.init import _all_work_items

    paths = [path for folder in FOLDERS for path in sorted((ROOT / "recon" / folder).glob("*.py"))]
    os.chdir(ROOT)
    items = [
        item.mutations[0]
        for item in _all_work_items([path.relative_to(ROOT) for path in paths], {})
    ]
    places = sorted(
        (str(m.module_path), m.operator_name, m.occurrence)
        for m in items
        if not crashes(m.operator_name)
    )
    by_line: dict[tuple[str, int, str], Mutant] = {}
    generator = random.Random(seed)
    generator.shuffle(places)
    for path, operator, occurrence in places:
        found = mutated(path, operator, occurrence)
        if found is not None:  # one of the ten ways to spoil an operator is enough
            by_line.setdefault((path, found.line, operator.split("_")[0] + found.before), found)
        if len(by_line) >= count:
            break
    return list(by_line.values())


def crashes(operator: str) -> bool:
    """Whether an operator makes what no tensor can do."""
    return operator.endswith(CRASHES)


def mutated(path: str, operator: str, occurrence: int) -> Mutant | None:
    """None where the code is the same without what is only said, or no code at all."""
    before = (ROOT / path).read_text(encoding="utf-8")
    after = source_of(path, operator, occurrence)
    try:
        if after is None or said(before) == said(after):
            return None
    except SyntaxError:
        return None
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    line = int(lines[2].split()[1].removeprefix("-").split(",")[0])
    changed = [
        next((text[1:].strip() for text in lines[3:] if text[0] == sign), "") for sign in "-+"
    ]
    return Mutant(path, operator, occurrence, line, *changed)


def planted() -> list[Mutant]:
    """The faults of benchmarks/planted.yml; the operator of each is its experiment's name."""
    found = []
    for fault in yaml.safe_load((ROOT / "benchmarks" / "planted.yml").read_text(encoding="utf-8")):
        text = (ROOT / fault["file"]).read_text(encoding="utf-8")
        assert text.count(fault["before"]) == 1, fault
        line = text[: text.index(fault["before"])].count("\n") + 1
        found.append(
            Mutant(fault["file"], fault["experiment"], 0, line, fault["before"], fault["after"])
        )
    return found


def source_of(path: str, operator: str, occurrence: int) -> str | None:
    """The file with that fault; None where there is no such place."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return mutate_code(
        (ROOT / path).read_text(encoding="utf-8"), get_operator(operator)(), occurrence
    )


def said(source: str) -> str:
    """The code without annotations of functions, words of errors, docstrings."""
    tree = Silent().visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs):
                argument.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


class Silent(ast.NodeTransformer):
    """Takes away what is only said: docstrings, and the words of errors."""

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node


def tests_of(path: str) -> list[str]:
    """The test files of a module's folder that mirror it or import from it, or all of the folder
    where there is none; its own examples; and the test of all modules.
    """
    folder, stem = Path(path).parent.name, Path(path).stem
    files = sorted((ROOT / "tests" / folder).glob("test_*.py"))
    own = [
        file
        for file in files
        if file.stem.startswith(f"test_{stem}")
        or f"from recon.{folder}.{stem} import" in file.read_text(encoding="utf-8")
    ]
    return [
        *([str(file.relative_to(ROOT)) for file in own] or [f"tests/{folder}"]),
        path,
        FROZEN,
    ]


def tests_of_chapter(path: str) -> list[str]:
    """The test files that speak of a chapter's package."""
    chapter = ".".join(Path(path).parent.parts)
    files = sorted((ROOT / "tests" / "chapters").glob("test_*.py"))
    about = [file for file in files if f"from {chapter}" in file.read_text(encoding="utf-8")]
    return [str(file.relative_to(ROOT)) for file in about]


def noticed(mutant: Mutant, copy: Path) -> str:
    """ "killed", "survived" or "timeout", by the tests that run in `copy`; SystemExit where those
    tests are red without any fault.
    """
    original = (ROOT / mutant.path).read_text(encoding="utf-8")
    if mutant.path.startswith("companion/chapters"):
        fault = original.replace(mutant.before, mutant.after)
        sets = [[f"{SMOKE}[{mutant.operator}]"], tests_of_chapter(mutant.path)]
    else:
        fault = source_of(mutant.path, mutant.operator, mutant.occurrence)
        sets = [tests_of(mutant.path)]
    assert fault is not None
    found = "survived"
    for tests in filter(None, sets):
        found = outcome(mutant.path, fault, original, copy, tests)
        if found == "killed" and not is_green(mutant.path, copy, tuple(tests)):
            raise SystemExit(f"red without any fault: {', '.join(tests)}")
        if found != "survived":
            break
    return found


@cache
def is_green(path: str, copy: Path, tests: tuple[str, ...]) -> bool:
    """Whether these tests pass without a fault, when they run by themselves."""
    original = (ROOT / path).read_text(encoding="utf-8")
    return outcome(path, original, original, copy, [*tests]) == "survived"


def outcome(path: str, fault: str, original: str, copy: Path, tests: list[str]) -> str:
    """That of these tests while the file at `path` holds the fault."""
    (copy / path).write_text(fault, encoding="utf-8")
    process = get_context("fork").Process(target=_run_tests, args=(copy, tests))
    try:
        process.start()
        process.join(TIMEOUT_S)
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return "timeout"
        if process.exitcode in (4, 5):  # of pytest: a file that is not there, no test
            raise SystemExit(f"these are no tests: {', '.join(tests)}")
        return "survived" if process.exitcode == 0 else "killed"
    finally:
        (copy / path).write_text(original, encoding="utf-8")


def _run_tests(copy: Path, files: list[str]) -> None:
    """In a child of this process, which has imported what takes long and nothing of the package."""
    import pytest

    os.setpgid(0, 0)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    code = pytest.main(
        [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-m",
            "slow or not slow" if "::" in files[0] else "not slow",  # a test that is named
            "--doctest-modules",
            *files,
        ]
    )
    os._exit(int(code))


def copies(number: int) -> Iterator[Path]:
    """As many copies of the tracked checkout."""
    for _ in range(number):
        folder = Path(tempfile.mkdtemp(prefix="recon-mutants-"))
        for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        yield folder


def main() -> None:
    """Sample, run, write the report, print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--planted", action="store_true", help="the faults of benchmarks/planted.yml"
    )
    parser.add_argument("--list", action="store_true", help="only show the sample")
    arguments = parser.parse_args()
    sample = planted() if arguments.planted else mutants(arguments.seed, arguments.count)
    if arguments.list:
        for mutant in sample:
            print(f"{mutant.path}:{mutant.line}: {mutant.before}  ->  {mutant.after}")
        return
    start = time.monotonic()
    outcomes = run_all(sample, arguments.jobs)
    file = ROOT / "benchmarks" / ("planted.json" if arguments.planted else "mutants.json")
    write_report(file, sample, outcomes, arguments.seed, time.monotonic() - start)


def run_all(sample: list[Mutant], jobs: int) -> list[str]:
    """The outcome of each, a line printed for each that survives."""
    for module in [name for name in sys.modules if name.split(".")[0] in ("recon", "companion")]:
        del sys.modules[module]  # the copy's is to be imported
    import scipy.optimize  # noqa: F401  (what takes long to import is imported once, before the forks)
    import skimage.metrics  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch
    import torchvision  # noqa: F401

    torch.set_num_threads(1)
    free: Queue[Path] = Queue()
    folders = list(copies(jobs))
    for folder in folders:
        free.put(folder)

    def one(mutant: Mutant) -> str:
        copy = free.get()
        try:
            outcome = noticed(mutant, copy)
        finally:
            free.put(copy)
        if outcome != "killed":
            print(
                f"{outcome}: {mutant.path}:{mutant.line}: {mutant.before}  ->  {mutant.after}",
                flush=True,
            )
        return outcome

    try:
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, sample))
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def write_report(
    file: Path, sample: list[Mutant], outcomes: list[str], seed: int, seconds: float
) -> None:
    """How many were noticed; every one that was not, with the reason where there is one."""
    known = yaml.safe_load((ROOT / "tests" / "mutants.yml").read_text(encoding="utf-8")) or {}
    left = [
        mutant for mutant, outcome in zip(sample, outcomes, strict=True) if outcome == "survived"
    ]
    survivors = [
        {**asdict(mutant), "why": known.get(f"{mutant.before} -> {mutant.after}", "")}
        for mutant in left
    ]
    equivalent = sum(bool(each["why"]) for each in survivors)
    report = {
        "seed": seed,
        "sampled": len(sample),
        "noticed": len(sample) - len(left),
        "survived_and_explained": equivalent,
        "survived": len(left) - equivalent,
        "share_noticed": round((len(sample) - len(left)) / max(len(sample), 1), 3),
        "minutes": round(seconds / 60, 1),
        "survivors": survivors,
    }
    file.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({key: value for key, value in report.items() if key != "survivors"}, indent=1))


if __name__ == "__main__":
    main()
