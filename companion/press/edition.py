"""Editions of the book: chapters executed side by side, each page whole or not there at all.

    build/<profile>-<data>/executed/*.ipynb   executed, checked, stamped chapters
                          /results/           what the experiments stored; reused by the next run
                          /html/              the book

A new edition's pages replace the old ones only after every chapter has run, and its HTML only after
a strict build.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
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
from companion.press.runner import ReconRunError, read_notebook
from companion.press.stamps import Edition
from companion.store.results import read_json
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.store.files import atomic_path, only_one


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


def is_appendix(page: Path) -> bool:
    """Chapters have numbers, appendices letters: `b-gradients`."""
    return not page.stem[0].isdigit()


def build_edition(
    settings: Edition,
    root: Path = ROOT,
    chapters: Sequence[str] | None = None,
    everything: bool = False,
) -> Path:
    """Execute the chapters and build their HTML; return the edition's folder.

    Appendices stand in it as they are published, with their results; Results that an earlier run
    has stored are not computed again. ReconError for bad input, before anything runs; ReconRunError
    (one line) for a failing chapter or book, with the edition's old pages untouched.

    Args:
        everything: they are executed too.

    Args:
        chapters: names (`01-linear`) of a subset, which skips the HTML.
    """
    sources, published = chapters_of(root, chapters), []
    if not chapters and not everything:
        published = [
            root / "book" / "executed" / source.name for source in filter(is_appendix, sources)
        ]
        sources = [source for source in sources if not is_appendix(source)]
    for source in sources:
        runner.check_parameters(source)
    pool = load_pool(settings.data, settings.data_root)
    edition = root / "build" / f"{settings.profile}-{pool.name}"
    if settings.data == "auto":
        settings = replace(settings, data=pool.name)  # no kernel looks for itself
    env = {"RECON_OUT": str(edition / "results")}
    if data_root := settings.data_root or os.environ.get("RECON_DATA"):
        env["RECON_DATA"] = str(Path(data_root).expanduser().resolve())  # kernels run in notebooks/
    _log(
        f"edition {edition.name}: {len(sources)} chapters"
        + (f" — {pool.notice}" if pool.notice else "")
    )
    with only_one(edition, ".run-*", ".html-*", "executed/.*.ipynb.*"):
        (edition / "results").mkdir(exist_ok=True)
        marks = {
            source: stamps.make_stamp(root, read_notebook(source), settings, pool)
            for source in sources
        }
        published_results = root / "book" / "executed" / "results"
        # the longest first, so that none is waited for
        longest = sorted(sources, key=lambda source: -_seconds(source, published_results))
        pages: dict[str, NotebookNode] = {}

        def stamp(source: Path, seconds: float) -> dict:
            return marks[source] | {"seconds": round(seconds, 1)}

        for name, nb in executed(longest, edition, env, settings, stamp):
            pages[name] = nb
            if chapters:  # asked for one by one: kept one by one, whatever becomes of the next
                replace_pages(edition / "executed", {name: nb}, keep=True)
        shutil.rmtree(edition / "failed", ignore_errors=True)
        if not chapters:
            pages |= dict(as_published(published, edition / "results"))
            replace_pages(edition / "executed", pages)
            _log("building the HTML …")
            build_html(root, edition / "executed", edition / "html", edition / "html.log")
    return edition


def as_published(pages: Iterable[Path], results: Path) -> Iterator[tuple[str, NotebookNode]]:
    """(file name, page) of the published edition; results of theirs that are not in `results` are
    copied there.
    """
    for page in pages:
        nb = read_notebook(page)
        for name in stamps.experiments_in(nb):
            stored = page.parent / "results" / name / "result.json"
            if stored.is_file() and not (results / name / "result.json").exists():
                with atomic_path(results / name / "result.json") as temporary:
                    shutil.copyfile(stored, temporary)
        yield page.name, nb


def executed(
    sources: Sequence[Path],
    work: Path,
    env: Mapping[str, str],
    settings: Edition,
    stamp: Callable[[Path, float], dict],
) -> Iterator[tuple[str, NotebookNode]]:
    """(file name, executed and stamped notebook), as they are done; `settings.jobs` at a time,
    begun in this order.

    The first failure is raised when those under way are done, and no other is begun. Experiments
    that two chapters share are not run by both at once: the store would refuse the second.

    Args:
        work: a folder that this run holds; a chapter that fails is left in `work`/failed.
        env: of the kernels, whose results go nowhere unless it says so.
        stamp: of a source that took so many seconds.
    """
    at_once = settings.jobs or cpu_count()
    jobs = max(1, min(at_once, len(sources)))
    # by the number that was asked for: the threads decide how numbers round, and one chapter alone
    # rounds as all do
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cpu_count() // max(1, at_once)))
    parameters = {name: getattr(settings, name) for name in runner.PARAMETERS}
    books = {source: read_notebook(source) for source in sources}
    needs = {source: stamps.experiments_in(nb) for source, nb in books.items()}
    locks = {name: Lock() for names in needs.values() for name in names}

    def execute(source: Path, target: Path) -> tuple[Path, NotebookNode, float]:
        with ExitStack() as held:
            for name in needs[source]:
                held.enter_context(locks[name])
            start = time.perf_counter()
            try:
                nb = runner.execute(source, target, parameters)
            except ReconRunError:
                _log(
                    f"{source.stem} failed"
                    + ("; what is under way is still done" if jobs > 1 else "")
                )
                if target.exists():
                    (work / "failed").mkdir(exist_ok=True)
                    _log(f"what was reached is in {target.replace(work / 'failed' / target.name)}")
                raise
            return source, nb, time.perf_counter() - start

    with TemporaryDirectory(dir=work, prefix=".run-") as run:
        env = {"OMP_NUM_THREADS": threads, "RECON_OUT": os.path.join(run, "results"), **env}
        with runner.kernels(Path(run), env), ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(execute, source, Path(run, source.name)) for source in sources]
            try:
                for number, future in enumerate(as_completed(futures), 1):
                    source, nb, seconds = future.result()
                    stamps.put_stamp(nb, stamp(source, seconds))
                    fill_in(nb, Path(env["RECON_OUT"]))
                    runner.check_no_paths(nb, source.stem, source.parents[1])
                    _log(f"[{number}/{len(sources)}] {source.stem} done in {seconds:.0f} s")
                    yield source.name, nb
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                if not isinstance(error, ReconRunError):
                    runner.end_kernels()
                raise


def _seconds(source: Path, results: Path) -> float:
    """What the experiments of a chapter took when they were last run, as far as `results` has
    them.
    """
    seconds = 0.0
    for name in stamps.experiments_in(read_notebook(source)):
        with suppress(ReconError):
            seconds += float(read_json(results / name / "result.json")["seconds"])
    return seconds


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
