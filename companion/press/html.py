"""Executed notebooks and prose to HTML: a staged source tree and a strict Jupyter Book build."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx_external_toc.parsing import parse_toc_yaml

from companion.press.runner import ReconRunError, fault, read_notebook
from recon.errors import ReconError, one_reason

EXECUTED = "book/executed/"
STRICT = ("-n", "-W", "--keep-going")
COMPLAINT = re.compile(".*(WARNING|ERROR):.*")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"  # the package has no __main__


def check_toc(root: Path, executed: Path) -> list[Path]:
    """The executed chapters that _toc.yml lists, each there, complete and free of errors;
    ReconError if not.
    """
    listed = [
        name.removeprefix(EXECUTED)
        for name in toc_files(root / "_toc.yml")
        if name.startswith(EXECUTED)
    ]
    there = {page.stem for page in executed.glob("*.ipynb")}
    if odd := sorted(there ^ set(listed)):
        raise ReconError(f"chapter {odd[0]} is listed in _toc.yml or executed, but not both")
    pages = [executed / f"{name}.ipynb" for name in listed]
    for page in pages:
        if found := fault(read_notebook(page)):
            raise ReconError(f"chapter {page.stem} is not a clean execution: {found}")
    return pages


def toc_files(toc: Path) -> list[str]:
    """Every document that a Jupyter Book table of contents names, without suffix; ReconError if it
    cannot be read.
    """
    with one_reason(f"{toc} cannot be read"):
        return [name.removesuffix(".ipynb").removesuffix(".md") for name in parse_toc_yaml(toc)]


def build_html(root: Path, executed: Path, html: Path, log: Path) -> Path:
    """Build the book around the pages in `executed` into the folder `html`; warnings are errors.

    The old `html` stays until the new one is complete. ReconError when a chapter is missing or in
    error, ReconRunError with the first warning when Jupyter Book fails; its whole output is in
    `log`.
    """
    pages = check_toc(root, executed)
    results = (
        executed / "results" if (executed / "results").is_dir() else executed.parent / "results"
    )
    html.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=html.parent, prefix=".html-") as folder:
        stage, out = Path(folder) / "source", Path(folder) / "out"
        _stage(root, pages, results, stage)
        command = [
            sys.executable,
            "-c",
            JUPYTER_BOOK,
            "build",
            str(stage),
            *STRICT,
            "--path-output",
            str(out),
        ]
        env = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            command,
            env=env,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        output = ANSI.sub("", done.stdout + done.stderr).replace(str(stage), ".")
        log.write_text(output, encoding="utf-8")
        built = out / "_build" / "html"
        if done.returncode or not (built / "index.html").exists():
            raise ReconRunError(
                f"the HTML build failed: {_first_complaint(output)} (more in {log.name})"
            )
        shutil.rmtree(html, ignore_errors=True)
        built.rename(html)
    return html


def _stage(root: Path, pages: list[Path], results: Path, stage: Path) -> None:
    """The source tree of the book with `pages` as its executed chapters, what experiments found,
    what was timed.
    """
    shutil.copytree(
        root / "book",
        stage / "book",
        ignore=shutil.ignore_patterns("executed", ".executed.*"),
    )
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(root / name, stage)
    (stage / "benchmarks").mkdir(parents=True)
    for path in (root / "benchmarks").glob("*.json"):
        shutil.copy(path, stage / "benchmarks")
    (stage / EXECUTED).mkdir()
    for page in pages:
        shutil.copy(page, stage / EXECUTED)
    if results.is_dir():
        others = shutil.ignore_patterns("*.safetensors", "*.png", "checkpoint-*")
        shutil.copytree(results, stage / EXECUTED / "results", ignore=others)


def _first_complaint(output: str) -> str:
    complaint = COMPLAINT.search(output)
    return (complaint[0] if complaint else output[-300:]).strip()[:300] or "no output"
