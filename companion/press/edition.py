"""Editions of the book: chapters executed side by side, each page whole or not there at all.

    build/<profile>-<data>/executed/*.ipynb   executed, checked, stamped chapters
                          /results/           what the experiments stored; reused by the next run
                          /html/              the book

A new edition's pages replace the old ones only after every chapter has run, and its HTML only after
a strict build.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from joblib import cpu_count
from nbformat import NotebookNode

from companion.chapters import ROOT
from companion.press import runner, stamps
from companion.press.html import build_html
from companion.press.numbers import fill_in
from companion.press.runner import read_notebook
from companion.press.stamps import Edition
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.store.files import only_one

RUNS = re.compile(r'recon\.run\(\s*\\"([\w-]+)')  # in the text of a notebook


def chapters_of(root: Path = ROOT, names: Iterable[str] | None = None) -> list[Path]:
    """The source notebooks of these chapters, or of all, in reading order; ReconError where there
    is none so named.
    """
    sources = {source.stem: source for source in sorted((root / "notebooks").glob("*.ipynb"))}
    if not sources:
        raise ReconError(
            "there are no notebooks in notebooks/: run this from a checkout of the repository"
        )
    for name in names or ():
        if name not in sources:
            raise ReconError(f"unknown chapter '{name}': choose from {', '.join(sources)}")
    return [source for name, source in sources.items() if not names or name in names]


def build_edition(
    settings: Edition,
    root: Path = ROOT,
    chapters: Sequence[str] | None = None,
) -> Path:
    """Execute the chapters and build their HTML; return the edition's folder.

    Results that an earlier run has stored are not computed again. ReconError for bad input, before
    anything runs; ReconRunError (one line) for a failing chapter or book, with the edition's old
    pages untouched.

    Args:
        chapters: names (`01-linear`) of a subset, which skips the HTML.
    """
    sources = chapters_of(root, chapters)
    for source in sources:
        runner.check_parameters(source)
    pool = load_pool(settings.data, settings.data_root)
    edition = root / "build" / f"{settings.profile}-{pool.name}"
    if settings.data == "auto":
        settings = replace(settings, data=pool.name)  # no kernel looks for itself
    env = {"RECON_OUT": str(edition / "results")}
    if data_root := settings.data_root or os.environ.get("RECON_DATA"):
        env["RECON_DATA"] = str(Path(data_root).expanduser().resolve())  # kernels run in notebooks/
    notice = f" — {pool.notice}" if pool.notice else ""
    _log(f"edition {edition.name}: {len(sources)} chapters{notice}")

    marks = {
        source: stamps.make_stamp(root, read_notebook(source), settings, pool) for source in sources
    }

    def stamp(source: Path, seconds: float) -> dict:
        return marks[source] | {"seconds": round(seconds, 1)}

    with only_one(edition, ".run-*", ".html-*", "executed/.*.ipynb.*"):
        (edition / "results").mkdir(exist_ok=True)
        pages = dict(executed(sources, edition, env, settings, stamp))
        replace_pages(edition / "executed", pages, keep=bool(chapters))
        if not chapters:
            _log("building the HTML …")
            build_html(root, edition / "executed", edition / "html", edition / "html.log")
    return edition


def executed(
    sources: Sequence[Path],
    work: Path,
    env: Mapping[str, str],
    settings: Edition,
    stamp: Callable[[Path, float], dict],
) -> Iterator[tuple[str, NotebookNode]]:
    """(file name, executed and stamped notebook) in this order, as many at a time as there are
    cores, until one fails.

    Kernels compute on one thread, unless `OMP_NUM_THREADS` says otherwise: the threads decide how
    numbers round. An experiment that two chapters run is not run by both at once: the store would
    refuse the second.

    Args:
        work: a folder that this run holds; a chapter that fails is left in `work`/failed.
        env: of the kernels, whose results go nowhere unless it says so.
        stamp: of a source that took so many seconds.
    """
    parameters = {name: getattr(settings, name) for name in runner.PARAMETERS}
    runs = {source: sorted({*RUNS.findall(source.read_text("utf-8"))}) for source in sources}
    locks = {name: Lock() for names in runs.values() for name in names}

    def execute(source: Path) -> tuple[NotebookNode, float]:
        with ExitStack() as stack:
            for name in runs[source]:
                stack.enter_context(locks[name])
            begun, target = time.perf_counter(), work / "failed" / source.name
            target.parent.mkdir(exist_ok=True)
            nb = runner.execute(source, target, parameters)
            target.unlink()
            return nb, time.perf_counter() - begun

    with TemporaryDirectory(dir=work, prefix=".run-") as run:
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        env = {"OMP_NUM_THREADS": threads, "RECON_OUT": os.path.join(run, "results"), **env}
        with runner.kernels(Path(run), env), ThreadPoolExecutor(cpu_count()) as pool:
            for source, (nb, seconds) in zip(sources, pool.map(execute, sources), strict=True):
                stamps.put_stamp(nb, stamp(source, seconds))
                fill_in(nb, Path(env["RECON_OUT"]))
                _log(f"{source.stem} done in {seconds:.0f} s")
                yield source.name, nb
    shutil.rmtree(work / "failed", ignore_errors=True)


def replace_pages(folder: Path, pages: dict[str, NotebookNode], keep: bool = False) -> None:
    """Write `pages`; unless `keep`, remove pages of chapters that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, nb in pages.items():
        runner.save(nb, folder / name)
    for page in folder.glob("*.ipynb"):
        if not keep and page.name not in pages:
            page.unlink()


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
