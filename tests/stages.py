"""`make test`: all stages, whatever becomes of the earlier ones, one line each, and a table at the
end.

    python tests/stages.py [--jobs 2] [--slow] [STAGE …]

A stage's whole output is in build/test/STAGE.log; of a failed one the names are printed, and what
to do. What the unit tests compute at smoke is stored in $RECON_SMOKE_OUT, where nbval's notebooks
find it. Types are checked and the book is built beside them, one processor each; tests that look at
its pages wait for $RECON_SITE_BUILT, its exit code.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from companion.press.edition import is_appendix

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("types", "build")
LOGS, SITE = ROOT / "build" / "test", ROOT / "build" / "published"
PYTHON = [sys.executable, "-m"]
# a busy machine takes more than the minute that is the default
PATIENT = ["--nbval-kernel-startup-timeout", "300"]
PROGRESS = re.compile(r"\[ *\d+%\]$")


@dataclass
class Stage:
    """A command, what to do where it fails, and how it went."""

    name: str
    command: list[str]
    advice: str
    code: int | None = None
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def run(self) -> None:
        """Run it, its output into its log, its progress to the terminal."""
        start = time.monotonic()
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with open(self.log, "w", encoding="utf-8") as log:
            process = subprocess.Popen(self.command, cwd=ROOT, **pipe)
            for line in process.stdout:
                print(line, end="", file=log, flush=True)
                if progress := PROGRESS.search(line.rstrip()):
                    print(f"   {self.name} {progress[0]}", flush=True)
        self.code, self.seconds = process.wait(), time.monotonic() - start
        self.counts = count_tests(self.log.read_text(encoding="utf-8"))
        print(self.summary(), flush=True)

    def summary(self) -> str:
        """How it went; of a failed stage which tests failed, and what to do."""
        if self.code == 0:
            return f"== {self.name}: passed in {self.seconds:.0f} s"
        lines = self.log.read_text(encoding="utf-8").splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-12:]
        first = f"== {self.name}: FAILED in {self.seconds:.0f} s"
        return "\n   ".join([first, *failed[:40], self.advice, f"all of it: {self.log}"])


def count_tests(text: str) -> dict[str, int]:
    """What pytest says at its end: passed, failed, errors, skipped -> how many."""
    ends = re.findall(r"^.*\d+ (?:passed|failed|error).*$", text, re.MULTILINE)
    numbers = re.findall(r"(\d+) (passed|failed|error|skipped)", ends[-1]) if ends else []
    return {name: int(number) for number, name in numbers}


def stages(jobs: int, slow: bool) -> list[Stage]:
    """In the order in which they start; those of `BESIDE`, which keep one processor busy, run
    beside the others.
    """
    # quiet already, by pyproject.toml
    pytest = [*PYTHON, "pytest", "-n", str(jobs), "-rfE", "--tb=short"]
    pages = [
        page
        for page in sorted((ROOT / "tests" / "reference").glob("*.ipynb"))
        if slow or not is_appendix(page)
    ]
    folders = ("tests", "recon-audit", "recon", "companion", "book/_ext")
    unit = [*([] if slow else ["-m", "not slow"]), "--doctest-modules", *folders]
    return [
        Stage("lint", [*PYTHON, "ruff", "check", "--quiet"], "ruff check --fix mends what it can"),
        Stage("format", [*PYTHON, "ruff", "format", "--check", "--quiet"], "ruff format mends it"),
        Stage("types", [*PYTHON, "mypy"], "mypy says where"),
        Stage("build", [*PYTHON, "recon.cli", "render"], "make render builds the same pages"),
        Stage(
            "unit",
            [*pytest, "--dist", "worksteal", *unit],
            "one again: .venv/bin/python -m pytest -n 0 NAME",
        ),
        Stage(
            "replays",
            [*PYTHON, "recon.cli", "replay", "--weekly", "--seconds", "8"],
            "recon replay NAME says more",
        ),
        Stage(
            "references",
            [
                *pytest,
                "--dist",
                "loadscope",
                "--nbval",
                "--nbval-current-env",
                *PATIENT,
                *map(str, pages),
            ],
            "where the change was meant: python tests/references.py CHAPTER",
        ),
    ]


def beside(chosen: list[Stage]) -> None:
    """One after the other, the book first; when it is built, the tests that wait for it are
    told.
    """
    for stage in sorted(chosen, key=lambda stage: stage.name):
        stage.run()
        if stage.name == "build":
            (SITE / "exit-code").write_text(f"{stage.code}\n", encoding="utf-8")


def run_all(chosen: list[Stage]) -> None:
    """All of them, those of `BESIDE` beside the others."""
    thread = threading.Thread(
        target=beside, args=([stage for stage in chosen if stage.name in BESIDE],)
    )
    thread.start()
    for stage in chosen:
        if stage.name not in BESIDE:
            stage.run()
    thread.join()


def table(chosen: list[Stage]) -> str:
    """Stage, passed, failed, seconds; the last line is the sum."""
    rows = [f"{'stage':12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    passed = failed = 0
    for stage in chosen:
        bad = stage.counts.get("failed", 0) + stage.counts.get("error", 0) or int(stage.code != 0)
        good = stage.counts.get("passed", 0) if stage.counts else int(stage.code == 0)
        skipped = stage.counts.get("skipped", 0)
        rows.append(f"{stage.name:12}{good:8}{bad:8}{skipped:9}{stage.seconds:9.0f}")
        passed, failed = passed + good, failed + bad
    return "\n".join([*rows, f"{passed} passed, {failed} failed"])


def main() -> int:
    """Exit code 0 where every stage passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="STAGE")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="the tests marked slow too")
    arguments = parser.parse_args()
    every = stages(arguments.jobs, arguments.slow)
    chosen = [stage for stage in every if not arguments.only or stage.name in arguments.only]
    if unknown := set(arguments.only) - {stage.name for stage in every}:
        parser.error(f"no stage '{min(unknown)}': {', '.join(stage.name for stage in every)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    SITE.mkdir(parents=True, exist_ok=True)
    (SITE / "exit-code").unlink(missing_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers do not fight over two cores
    if any(stage.name == "build" for stage in chosen):
        os.environ |= {
            "RECON_SITE": str(SITE / "html"),
            "RECON_SITE_BUILT": str(SITE / "exit-code"),
        }
    with tempfile.TemporaryDirectory(prefix="recon-smoke-") as folder:
        os.environ["RECON_SMOKE_OUT"] = folder
        run_all(chosen)
    print(table(chosen))
    return int(any(stage.code != 0 for stage in chosen))


if __name__ == "__main__":
    raise SystemExit(main())
