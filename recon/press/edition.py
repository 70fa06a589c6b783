"""Editions of the book: chapters executed side by side, each page whole or not there at all.

    build/<profile>-<data>/executed/*.ipynb   executed, checked, stamped chapters
                          /results/           what the experiments stored; reused by the next run
                          /html/              the book

A new edition's pages replace the old ones only after every chapter has run, and its HTML only after a strict build.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import nbformat
from nbformat import NotebookNode

from recon.chapters import ROOT
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.press import stamps
from recon.press.html import build_html
from recon.press.runner import (
    ReconRunError,
    check_no_paths,
    check_parameters,
    end_kernels,
    execute,
    kernels,
    read_notebook,
    save,
)
from recon.press.stamps import Edition
from recon.store.files import only_one, remove_leftovers
from recon.store.machine import cores
from recon.store.results import read_json


def chapters_of(root: Path = ROOT) -> list[Path]:
    """The chapters' source notebooks, in reading order."""
    found = sorted((root / "notebooks").glob("*.ipynb"))
    if not found:
        raise ReconError("there are no notebooks in notebooks/: run this from a checkout of the repository")
    return found


def build_edition(settings: Edition, root: Path = ROOT, chapters: Sequence[str] | None = None) -> Path:
    """Execute the chapters and build their HTML; return the edition's folder.

    chapters: names (`01-linear`) of a subset, which then skips the HTML.  ReconError for bad input, before anything
    runs; ReconRunError (one line) for a failing chapter or book, with the edition's old pages untouched.
    """
    sources = _select(chapters_of(root), chapters)
    for source in sources:
        check_parameters(source, {})
    pool = load_pool(settings.data, settings.data_root)
    edition = root / "build" / f"{settings.profile}-{pool.name}"
    data = pool.name if settings.data == "auto" else settings.data  # no kernel looks for itself
    parameters = {"profile": settings.profile, "data": data, "seed": settings.seed, "device": settings.device}
    env = {"RECON_OUT": str(edition / "results"), **_data_environment(settings.data_root)}
    _log(f"edition {edition.name}: {len(sources)} chapters" + (f" — {pool.notice}" if pool.notice else ""))
    pages: dict[str, NotebookNode] = {}
    with only_one(edition):
        remove_leftovers(edition, ".run-*", ".html-*", "executed/.*.ipynb.*")
        (edition / "results").mkdir(exist_ok=True)
        marks = {source: stamps.make_stamp(root, read_notebook(source), settings, pool) for source in sources}
        places = (edition / "results", root / "book" / "executed" / "results")
        longest = sorted(sources, key=lambda source: -_seconds(source, places))  # first, so that none is waited for
        with TemporaryDirectory(dir=edition, prefix=".run-") as run:
            for source, nb, seconds in executed(longest, Path(run), parameters, env, settings, edition / "failed"):
                stamps.put_stamp(nb, marks[source] | {"seconds": round(seconds, 1)})
                check_no_paths(nb, source.stem, root)
                pages[source.name] = nb
                if chapters is not None:  # asked for one by one: kept one by one, whatever becomes of the next
                    _replace_pages(edition / "executed", {source.name: nb}, keep=True)
                _log(f"[{len(pages)}/{len(sources)}] {source.stem} done in {seconds:.0f} s")
        shutil.rmtree(edition / "failed", ignore_errors=True)
        if chapters is None:
            _replace_pages(edition / "executed", pages)
            _log("building the HTML …")
            build_html(root, edition / "executed", edition / "html", edition / "html.log")
    return edition


def write_references(root: Path = ROOT, chapters: Sequence[str] | None = None, jobs: int | None = None) -> Path:
    """Execute all chapters, or those named, at smoke on the bundled photographs into tests/reference/, for nbval to
    compare with."""
    sources, settings = _select(chapters_of(root), chapters), Edition("smoke", "photos", "cpu", jobs=jobs)
    parameters = {"profile": "smoke", "data": "photos", "seed": 0, "device": "cpu"}
    pages, work = {}, root / "build" / "references"
    with only_one(work):
        remove_leftovers(work, ".run-*")
        with TemporaryDirectory(dir=work, prefix=".run-") as run:
            env = {"RECON_OUT": str(Path(run) / "results"), "OMP_NUM_THREADS": "1"}
            for source, nb, seconds in executed(sources, Path(run), parameters, env, settings, work / "failed"):
                sha256 = stamps.notebook_sha256(read_notebook(source))
                nb.metadata["recon"] = nbformat.from_dict({"notebook_sha256": sha256})
                check_no_paths(nb, source.stem, root)
                pages[source.name] = nb
                _log(f"[{len(pages)}/{len(sources)}] reference of {source.stem} done in {seconds:.0f} s")
    _replace_pages(root / "tests" / "reference", pages, keep=chapters is not None)
    return root / "tests" / "reference"


def executed(
    sources: Sequence[Path],
    run: Path,
    parameters: Mapping[str, object],
    env: Mapping[str, str],
    settings: Edition,
    failed: Path,
) -> Iterator[tuple[Path, NotebookNode, float]]:
    """(source, executed notebook, seconds), as they are done; `settings.jobs` chapters at a time, begun in this order.

    run: an empty folder to work in · env: of the kernels · failed: where a chapter that fails goes.  The first failure
    is raised when those under way are done, and no other is begun.  Experiments that two chapters share are not run by
    both at once: the store would refuse the second.
    """
    jobs = min(settings.jobs or cores(), len(sources))
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // jobs))
    needs = {source: stamps.experiments_in(read_notebook(source)) for source in sources}
    locks = {name: Lock() for names in needs.values() for name in names}

    def one(source: Path) -> tuple[Path, NotebookNode, float]:
        with ExitStack() as held:
            for name in needs[source]:
                held.enter_context(locks[name])
            start = time.perf_counter()
            try:
                nb = execute(source, run / source.name, parameters, settings.timeout)
            except ReconRunError:
                _log(f"{source.stem} failed" + ("; what is under way is still done" if jobs > 1 else ""))
                _keep_for_debugging(run / source.name, failed)
                raise
            return source, nb, time.perf_counter() - start

    with kernels(run, {"OMP_NUM_THREADS": threads, **env}), ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, source) for source in sources]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException as error:
            for future in futures:
                future.cancel()
            if not isinstance(error, ReconRunError):
                end_kernels()
            raise


# ------------------------------------------------------------------------------------------------ helpers


def _select(sources: list[Path], names: Iterable[str] | None) -> list[Path]:
    if names is None:
        return sources
    by_name = {source.stem: source for source in sources}
    for name in names:
        if name not in by_name:
            raise ReconError(f"unknown chapter '{name}': choose from {', '.join(by_name)}")
    return [source for source in sources if source.stem in set(names)]


def _seconds(source: Path, places: Iterable[Path]) -> float:
    """What the experiments of a chapter took when they were last run, as far as one of these folders has them."""
    found = 0.0
    for name in stamps.experiments_in(read_notebook(source)):
        for place in places:
            with suppress(ReconError, TypeError, ValueError):
                found += float(read_json(place / name / "result.json").get("seconds", 0.0))
                break
    return found


def _data_environment(data_root: str | Path | None) -> dict[str, str]:
    """RECON_DATA for the kernels, absolute because they run in notebooks/."""
    named = data_root or os.environ.get("RECON_DATA")
    return {"RECON_DATA": str(Path(named).expanduser().resolve())} if named else {}


def _keep_for_debugging(target: Path, failed: Path) -> None:
    if target.exists():
        failed.mkdir(exist_ok=True)
        os.replace(target, failed / target.name)
        _log(f"what was reached is in {failed / target.name}")


def _replace_pages(folder: Path, pages: dict[str, NotebookNode], keep: bool = False) -> None:
    """Write `pages`; unless `keep`, remove pages of chapters that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, nb in pages.items():
        save(nb, folder / name)
    for page in folder.glob("*.ipynb"):
        if not keep and page.name not in pages:
            page.unlink()


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
