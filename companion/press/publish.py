"""The published edition in book/executed/: an edition is promoted to it on purpose, and rendered
without executing.
"""

import os
import re
import shutil
from pathlib import Path

from nbformat import NotebookNode

from companion.chapters import ROOT, entries, kept_folder, load
from companion.press import stamps
from companion.press.edition import chapters_of
from companion.press.html import build_html, check_toc
from companion.press.numbers import write_readme
from companion.press.runner import fault, read_notebook
from companion.store.kept import keep_arrays, keep_reconstructions
from companion.store.results import as_json
from recon.errors import ReconError
from recon.store.files import atomic_path, only_one

PUBLISHABLE = ("laptop", "paper")
UNCOMMITTED = re.compile("unknown|-dirty$")


def render(root: Path = ROOT) -> Path:
    """HTML of the published edition into build/published/html, without executing; return that
    folder.
    """
    out = root / "build" / "published"
    with only_one(out, ".html-*"):
        return build_html(root, root / "book" / "executed", out / "html", out / "html.log")


def publish(edition: str | Path = "laptop-cifar10", root: Path = ROOT) -> Path:
    """Promote an edition (a name under build/, or a whole path) into book/executed/.

    ReconError, one sentence, for an edition that is incomplete, in error, stale, not on CIFAR-10,
    at the smoke profile, mixed, or made from uncommitted code, or holds a damaged result;
    book/executed/ is then untouched.
    """
    target = root / "book" / "executed"
    new = target.with_name(".executed.new")
    folder = root / "build" / edition
    if not (folder / "executed").is_dir():
        raise ReconError(
            f"there is no edition '{edition}': give a folder under build/ that `recon book` made"
        )
    with only_one(folder), only_one(target.parent, new.name):
        pages = _publishable_pages(folder, root)
        new.mkdir()
        for page in pages:
            shutil.copy2(page, new)
        for name in entries():
            if os.path.lexists(folder / "results" / name / "result.json"):
                _check_committed(folder / "results" / name)
                _copy_result(folder / "results" / name, new / "results" / name)
        shutil.rmtree(target, ignore_errors=True)
        new.rename(target)
    write_readme(root)
    return target


def refresh(root: Path = ROOT) -> Path:
    """Judge every result of the book by today's rules, and write README.md anew from them."""
    for file in (root / "book").rglob("result.json"):
        _copy_result(file.parent, file.parent)
    return write_readme(root)


def keep(folder: str | Path, root: Path = ROOT) -> Path:
    """Copy one result on CIFAR-10, and the arrays of its figures, to a place in the book that no
    edition overwrites.

    At profile `paper`: book/paper-size/NAME, a run too long to be part of an edition, which a
    chapter shows beside the reader's own, see `companion.chapters.kept`; with another seed than 0
    book/paper-size/NAME/seed-S. At profile `laptop`, without arrays:
    book/seeds/NAME/seed-S; the claims page gives both as a range. A run at profile `paper` that has
    `x_hat` keeps it, in 8 bits (`keep_reconstructions`), so that anybody can score it anew.
    ReconError for anything else, uncommitted code, or a folder without a result.
    """
    folder = Path(folder)
    made = load(folder, arrays=False).made
    if made.data.name != "cifar10" or made.overrides or made.profile not in PUBLISHABLE:
        raise ReconError(
            "only results on CIFAR-10 at profile laptop or paper, without sizes of its own, are"
            f" kept, not {made.profile} on {made.data.name}"
        )
    target = root / "book" / "seeds" / made.experiment / f"seed-{made.seed}"
    if made.profile == "paper":
        target = kept_folder(made.experiment, made.seed, root)
    _check_committed(folder)
    with only_one(root / "book"):
        if made.profile == "paper" and (folder / "arrays.safetensors").is_file():
            arrays = load(folder).arrays
            keep_reconstructions(arrays, target)
            keep_arrays(arrays, target)
        _copy_result(folder, target)
    write_readme(root)
    return target


def _check_committed(folder: Path) -> None:
    """ReconError for a result that was made by code which no commit holds."""
    made = load(folder, arrays=False).made
    if UNCOMMITTED.search(made.commit):
        raise ReconError(
            f"{made.experiment} was run with uncommitted code ({made.commit}): commit, and run it"
            " again"
        )


def _copy_result(folder: Path, target: Path) -> None:
    """`result.json`, its claims made by today's code.

    Other arrays stay where they are: they hold images of the data set, which is not ours to commit.
    """
    with atomic_path(target / "result.json") as temporary:
        temporary.write_text(as_json(load(folder, arrays=False)), encoding="utf-8")


def _publishable_pages(folder: Path, root: Path) -> list[Path]:
    """The edition's pages, or ReconError with the first reason not to publish."""
    sources, refused = chapters_of(root), f"edition {folder.name} is not published:"
    pages = [folder / "executed" / source.name for source in sources]
    for source, page in zip(sources, pages, strict=True):
        if reason := _refusal(page, source):
            raise ReconError(f"{refused} chapter {source.stem} {reason}")
    made = [read_notebook(page).metadata.recon for page in pages]
    if len({(stamp.profile, stamp.seed, stamp.data.sha256) for stamp in made}) > 1:
        raise ReconError(f"{refused} its chapters mix profiles, seeds or data")
    check_toc(root, folder / "executed")
    return pages


def _refusal(page: Path, source: Path) -> str | None:
    if not os.path.lexists(page):
        return "is missing"
    nb = read_notebook(page)
    if reason := fault(nb):
        return f"is not a clean execution: {reason}"
    stamp = nb.metadata.get("recon")
    if not isinstance(stamp, NotebookNode):
        return "carries no stamp"
    if stamp.profile not in PUBLISHABLE:
        return f"was executed at profile {stamp.profile}, not {' or '.join(PUBLISHABLE)}"
    if stamp.data.name != "cifar10":
        return f"was executed on {stamp.data.name}, not on CIFAR-10"
    if stamp.notebook_sha256 != stamps.notebook_sha256(read_notebook(source)):
        return "is stale: its notebook has changed since"
    if UNCOMMITTED.search(stamp.commit):
        return f"was made from uncommitted code (commit {stamp.commit})"
    return None
