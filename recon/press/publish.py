"""Editions of the book: built beside each other under build/, one of them promoted to book/executed/ on purpose.

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
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode

from recon.errors import ReconError
from recon.press import stamps
from recon.press.html import build_html, check_toc, put_back, swap
from recon.press.runner import ReconRunError, check_no_paths, check_parameters, execute, fault, read_notebook, save
from recon.store import ledger
from recon.store.files import atomic_path, only_one

if TYPE_CHECKING:
    from recon.images.pools import ImagePool

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ("smoke", "laptop", "paper")
PUBLISHABLE = ("laptop", "paper")


def chapters_of(root: Path = ROOT) -> list[Path]:
    """The chapters' source notebooks, in reading order."""
    found = sorted((root / "notebooks").glob("*.ipynb"))
    if not found:
        raise ReconError("there are no notebooks in notebooks/: run this from a checkout of the repository")
    return found


def build_edition(
    profile: str = "laptop",
    data: str = "auto",
    device: str = "auto",
    seed: int = 0,
    root: Path = ROOT,
    chapters: Sequence[str] | None = None,
    data_root: str | Path | None = None,
    html: bool = True,
    timeout: float | None = None,
) -> Path:
    """Execute the chapters and build their HTML; return the edition's folder.

    chapters: names (`01-linear`) of a subset, which then skips the HTML · data_root: as `recon.images.pools.load_pool` ·
    timeout: seconds a cell may take.  ReconError for bad input, before anything runs; ReconRunError (one line) for a
    failing chapter or book, with the edition's old pages untouched.
    """
    from recon.chapters import check_seed, resolve_device

    if profile not in PROFILES:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(PROFILES)}")
    check_seed(seed)
    resolve_device(device)
    sources = _select(chapters_of(root), chapters)
    for source in sources:
        check_parameters(source, {})
    pool = _load_pool(data, data_root)
    edition = root / "build" / f"{profile}-{pool.name}"
    parameters = {"profile": profile, "data": pool.name, "seed": seed, "device": device}
    env = {"RECON_OUT": str(edition / "results"), **_data_environment(data_root)}
    _log(f"edition {edition.name}: {len(sources)} chapters" + (f" — {pool.notice}" if pool.notice else ""))

    pages = {}
    with only_one(edition), TemporaryDirectory(dir=edition, prefix=".run-") as run:
        (edition / "results").mkdir(exist_ok=True)
        for number, source in enumerate(sources, 1):
            _log(f"[{number}/{len(sources)}] {source.stem} …")
            target, start = Path(run) / source.name, time.perf_counter()
            original = read_notebook(source)
            stamp = stamps.make_stamp(root, original, profile, pool, seed, device)
            try:
                nb = execute(source, target, parameters, env, timeout)
            except ReconRunError:
                _keep_for_debugging(target, edition)
                raise
            stamp["seconds"] = round(time.perf_counter() - start, 1)
            stamps.put_stamp(nb, stamp)
            check_no_paths(nb, source.stem, root)
            pages[source.name] = nb
            if chapters is not None:  # asked for one by one: kept one by one, whatever becomes of the next
                _replace_pages(edition / "executed", {source.name: nb}, keep=True)
            _log(f"[{number}/{len(sources)}] {source.stem} done in {stamp['seconds']:.0f} s")
        if chapters is None:
            _replace_pages(edition / "executed", pages)
        shutil.rmtree(edition / "failed", ignore_errors=True)
        if html and chapters is None:
            _log("building the HTML …")
            build_html(root, edition / "executed", edition / "html", edition / "html.log")
    return edition


def render(root: Path = ROOT) -> Path:
    """HTML of the published edition into build/published/html, without executing; return that folder."""
    out = root / "build" / "published"
    with only_one(out):
        return build_html(root, root / "book" / "executed", out / "html", out / "html.log")


def publish(edition: str | Path | None = None, root: Path = ROOT) -> Path:
    """Promote an edition (a folder, a name under build/, or the newest on CIFAR-10) into book/executed/.

    ReconError, one sentence, for an edition that is incomplete, in error, stale, not on CIFAR-10, at the smoke
    profile, mixed, or made from uncommitted code, or holds a damaged result; book/executed/ is then untouched.
    """
    target = root / "book" / "executed"
    folder = _find_edition(edition, root)
    if (folder / "executed").resolve() == target.resolve():
        raise ReconError(f"{folder} is where the published edition lies: name the edition to publish")
    with only_one(folder), only_one(target.parent):
        put_back(target)
        pages = _publishable_pages(folder, root)
        new = target.with_name(".executed.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for name in pages:
            shutil.copy2(folder / "executed" / name, new / name)
        _copy_results(folder / "results", new / "results")
        swap(new, target)
    return target


def write_references(root: Path = ROOT, timeout: float | None = None, chapters: Sequence[str] | None = None) -> Path:
    """Execute all chapters, or those named, at smoke on the bundled photographs into tests/reference/, for nbval to
    compare with."""
    sources = _select(chapters_of(root), chapters)
    parameters = {"profile": "smoke", "data": "photos", "seed": 0, "device": "cpu"}
    pages = {}
    with TemporaryDirectory(prefix="recon-references-") as folder:
        env = {"RECON_OUT": str(Path(folder) / "results"), "OMP_NUM_THREADS": "1"}
        for number, source in enumerate(sources, 1):
            _log(f"[{number}/{len(sources)}] reference of {source.stem} …")
            nb = execute(source, Path(folder) / source.name, parameters, env, timeout)
            original = read_notebook(source)
            nb.metadata["recon"] = nbformat.from_dict({"notebook_sha256": stamps.notebook_sha256(original)})
            check_no_paths(nb, source.stem, root)
            pages[source.name] = nb
    _replace_pages(root / "tests" / "reference", pages, keep=chapters is not None)
    return root / "tests" / "reference"


def keep(folder: str | Path, root: Path = ROOT) -> Path:
    """Copy one result on CIFAR-10, `result.json` and figures, to a place in the book that no edition overwrites.

    At profile `paper`: book/paper-size/NAME, a run too long to be part of an edition, shown by a chapter through
    `recon.store.results.kept`.  At profile `laptop` with another seed than 0: book/seeds/NAME/seed-S, which the claims page
    gives as a range.  Claims that are functions of stored metrics are made again by today's code.  Raises ReconError
    for anything else, or a folder without a result.
    """
    from recon.chapters import claims_again, registry
    from recon.store.results import load_result, replace_claims

    result = load_result(Path(folder), arrays=False)
    if result.experiment not in registry():  # its name becomes a folder of the book
        raise ReconError(f"the result in {folder} is of an unknown experiment '{result.experiment}'")
    found = (result.profile, result.data["name"])
    if found == ("paper", "cifar10"):
        target = root / "book" / "paper-size" / result.experiment
    elif found == ("laptop", "cifar10") and result.seed:
        target = root / "book" / "seeds" / result.experiment / f"seed-{result.seed}"
    else:
        raise ReconError(
            "only results on CIFAR-10 at profile paper, or at profile laptop with a seed other than 0, are kept, "
            f"not {found[0]} on {found[1]} with seed {result.seed}"
        )
    figures = sorted(path for path in Path(folder).glob("*.png") if path.is_file())
    with only_one(root / "book"):
        for path in (*(figures if result.profile == "paper" else []), Path(folder) / "result.json"):
            with atomic_path(target / path.name) as temporary:
                shutil.copyfile(path, temporary)
        if (claims := claims_again(result).claims) != result.claims:
            replace_claims(target, claims)
    return target


def stale_pages(folder: Path, root: Path = ROOT) -> list[str]:
    """Chapters whose page in `folder` is missing, or was made from another version of the notebook."""
    return [source.stem for source in chapters_of(root) if not _is_fresh(folder / source.name, source)]


# ------------------------------------------------------------------------------------------------ helpers


def _select(sources: list[Path], names: Iterable[str] | None) -> list[Path]:
    if names is None:
        return sources
    by_name = {source.stem: source for source in sources}
    for name in names:
        if name not in by_name:
            raise ReconError(f"unknown chapter '{name}': choose from {', '.join(by_name)}")
    return [source for source in sources if source.stem in set(names)]


def _load_pool(data: str, data_root: str | Path | None) -> ImagePool:
    from recon.images.pools import load_pool  # torch is imported on demand

    return load_pool(data, data_root)


def _data_environment(data_root: str | Path | None) -> dict[str, str]:
    """RECON_DATA for the kernels, absolute because they run in notebooks/."""
    named = data_root or os.environ.get("RECON_DATA")
    return {"RECON_DATA": str(Path(named).expanduser().resolve())} if named else {}


def _keep_for_debugging(target: Path, edition: Path) -> None:
    if target.exists():
        (edition / "failed").mkdir(exist_ok=True)
        kept = edition / "failed" / target.name
        os.replace(target, kept)
        _log(f"what was reached is in {kept}")


def _replace_pages(folder: Path, pages: dict[str, NotebookNode], keep: bool = False) -> None:
    """Write `pages`; unless `keep`, remove pages of chapters that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, nb in pages.items():
        save(nb, folder / name)
    for page in folder.glob("*.ipynb"):
        if not keep and page.name not in pages:
            page.unlink()


def _is_fresh(page: Path, source: Path) -> bool:
    if not page.exists():
        return False
    stamp = read_notebook(page).metadata.get("recon", {})
    return stamp.get("notebook_sha256") == stamps.notebook_sha256(read_notebook(source))


def _find_edition(edition: str | Path | None, root: Path) -> Path:
    if edition is not None:
        for folder in (Path(edition), root / "build" / edition):
            if (folder / "executed").is_dir():
                return folder
        raise ReconError(f"there is no edition '{edition}': give a folder under build/ that `recon book` made")
    candidates = [root / "build" / f"{profile}-cifar10" / "executed" for profile in PUBLISHABLE]
    found = [
        (max(page.lstat().st_mtime for page in f.glob("*.ipynb")), f) for f in candidates if any(f.glob("*.ipynb"))
    ]
    if not found:
        raise ReconError("there is no edition on CIFAR-10 to publish: run `recon book --data cifar10` first")
    return max(found)[1].parent


def _publishable_pages(folder: Path, root: Path) -> list[str]:
    """Names of the edition's pages, or ReconError with the first reason not to publish."""
    seen = set()
    for source in chapters_of(root):
        page = folder / "executed" / source.name
        if not os.path.lexists(page):
            raise ReconError(f"edition {folder.name} is not published: chapter {source.stem} is missing")
        nb = read_notebook(page)
        if reason := _refusal(nb, source):
            raise ReconError(f"edition {folder.name} is not published: chapter {source.stem} {reason}")
        stamp = nb.metadata.recon
        seen.add((stamp.profile, stamp.seed, stamp.data.sha256))
    if len(seen) > 1:
        raise ReconError(f"edition {folder.name} is not published: its chapters mix profiles, seeds or data")
    check_toc(root, folder / "executed")
    return [source.name for source in chapters_of(root)]


def _refusal(nb: NotebookNode, source: Path) -> str | None:
    if found := fault(nb):
        return f"is not a clean execution: {found}"
    stamp = stamps.stamp_of(nb)
    if stamp is None:
        return "carries no stamp, or half of one"
    if stamp.profile not in PUBLISHABLE:
        return f"was executed at profile {stamp.profile}, not {' or '.join(PUBLISHABLE)}"
    if stamp.data.name != "cifar10":
        return f"was executed on {stamp.data.name}, not on CIFAR-10"
    original = read_notebook(source)
    if stamp.notebook_sha256 != stamps.notebook_sha256(original):
        return "is stale: its notebook has changed since"
    if stamp.source_hash != stamps.source_hash(original, stamp.profile):
        return "is stale: the package's code has changed since"
    if stamp.commit == "unknown" or stamp.commit.endswith("-dirty"):
        return f"was made from uncommitted code (commit {stamp.commit})"
    return None


def _copy_results(results: Path, target: Path) -> None:
    """Every result.json, none of them damaged, and the ledger.

    Arrays stay in the edition: they hold images of the data set, which is not ours to commit.
    """
    from recon.store.results import load_result

    if (results / ledger.FILE).is_file():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(results / ledger.FILE, target / ledger.FILE)
    for path in sorted(results.glob("*/result.json")):
        load_result(path.parent, arrays=False)
        copy = target / path.relative_to(results)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
