"""The published edition in book/executed/: an edition is promoted to it on purpose, and rendered
without executing.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from companion.chapters import ROOT, kept_folder, load, registry, sizes_at
from companion.press import stamps
from companion.press.edition import chapters_of
from companion.press.html import build_html, check_toc, swap
from companion.press.numbers import TEMPLATE, write_readme
from companion.press.runner import fault, read_notebook
from companion.store.kept import keep_arrays, keep_reconstructions
from companion.store.results import Result, as_json, read_json
from recon.errors import ReconError
from recon.store.files import atomic_path, only_one

PUBLISHABLE = ("laptop", "paper")


def render(root: Path = ROOT) -> Path:
    """HTML of the published edition into build/published/html, without executing; return that
    folder.
    """
    out = root / "build" / "published"
    with only_one(out, ".html-*"):
        return build_html(root, root / "book" / "executed", out / "html", out / "html.log")


def publish(edition: str | Path = "laptop-cifar10", root: Path = ROOT) -> Path:
    """Promote an edition (a folder, or a name under build/) into
    book/executed/.

    ReconError, one sentence, for an edition that is incomplete, in error, stale, not on CIFAR-10,
    at the smoke profile, mixed, or made from uncommitted code, or holds a damaged result;
    book/executed/ is then untouched.
    """
    target = root / "book" / "executed"
    new = target.with_name(".executed.new")
    folder = _find_edition(edition, root)
    if (folder / "executed").resolve() == target.resolve():
        raise ReconError(
            f"{folder} is where the published edition lies: name the edition to publish"
        )
    with only_one(folder), only_one(target.parent, new.name):
        pages = _publishable_pages(folder, root)
        new.mkdir()
        for page in pages:
            shutil.copy2(page, new)
        for name in registry():
            if os.path.lexists(folder / "results" / name / "result.json"):
                _check_committed(folder / "results" / name)
                _copy_result(folder / "results" / name, new / "results" / name)
        swap(new, target)
    _readme(root)
    return target


def _readme(root: Path) -> None:
    """Its numbers are those of the edition and of what is kept."""
    if (root / TEMPLATE).is_file():
        write_readme(root)


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
    book/paper-size/NAME/seed-S. At profile `laptop` with another seed than 0, without arrays:
    book/seeds/NAME/seed-S; the claims page gives both as a range. A run at profile `paper` that has
    `x_hat` keeps it, in 8 bits (`keep_reconstructions`), so that anybody can score it anew.
    ReconError for anything else, uncommitted code, or a folder without a result.
    """
    folder, result = Path(folder), load(Path(folder), arrays=False)
    made, own_sizes = result.made, _own_sizes(result)
    found = (made.profile, made.data.name)
    if found == ("paper", "cifar10") and not own_sizes:
        target = kept_folder(made.experiment, made.seed, root)
    elif found == ("laptop", "cifar10") and made.seed and not own_sizes:
        target = root / "book" / "seeds" / made.experiment / f"seed-{made.seed}"
    else:
        raise ReconError(
            "only results on CIFAR-10 at profile paper, or at profile laptop with a seed other"
            f" than 0, are kept, not {found[0]} on {found[1]} with seed {made.seed}"
            + (" and sizes of its own" if own_sizes else "")
        )
    _check_committed(folder)
    with only_one(root / "book"):
        if made.profile == "paper" and (folder / "arrays.safetensors").is_file():
            arrays = load(folder).arrays
            keep_reconstructions(arrays, target)
            keep_arrays(arrays, target)
        _copy_result(folder, target)
    _readme(root)
    return target


def _check_committed(folder: Path) -> None:
    """ReconError for a result that was made by code which no commit holds."""
    made = load(folder, arrays=False).made
    if made.commit == "unknown" or made.commit.endswith("-dirty"):
        raise ReconError(
            f"{made.experiment} was run with uncommitted code ({made.commit}): commit, and run it"
            " again"
        )


def _own_sizes(result: Result[Any]) -> bool:
    """Whether fields were set by hand, to other values than the profile has."""
    chosen = registry()[result.made.experiment]
    return (
        bool(result.made.overrides)
        and sizes_at(result, chosen) != chosen.sizes[result.made.profile]
    )


def _copy_result(folder: Path, target: Path) -> None:
    """`result.json`, its claims made by today's code.

    Other arrays stay where they are: they hold images of the data set, which is not ours to commit.
    """
    result = load(folder, arrays=False)
    sha256 = read_json(folder / "result.json").get("arrays_sha256")
    with atomic_path(target / "result.json") as temporary:
        temporary.write_text(as_json(result, sha256), encoding="utf-8")


def _find_edition(edition: str | Path, root: Path) -> Path:
    for folder in (Path(edition), root / "build" / edition):
        if (folder / "executed").is_dir():
            return folder
    raise ReconError(
        f"there is no edition '{edition}': give a folder under build/ that `recon book` made"
    )


def _publishable_pages(folder: Path, root: Path) -> list[Path]:
    """The edition's pages, or ReconError with the first reason not to publish."""
    seen, pages = set(), []
    for source in chapters_of(root):
        page = folder / "executed" / source.name
        if not os.path.lexists(page):
            raise ReconError(
                f"edition {folder.name} is not published: chapter {source.stem} is missing"
            )
        nb = read_notebook(page)
        if reason := _refusal(nb, source):
            raise ReconError(
                f"edition {folder.name} is not published: chapter {source.stem} {reason}"
            )
        stamp = nb.metadata.recon
        seen.add((stamp.profile, stamp.seed, stamp.data.sha256))
        pages.append(page)
    if len(seen) > 1:
        raise ReconError(
            f"edition {folder.name} is not published: its chapters mix profiles, seeds or data"
        )
    check_toc(root, folder / "executed")
    return pages


def _refusal(nb: NotebookNode, source: Path) -> str | None:
    if found := fault(nb):
        return f"is not a clean execution: {found}"
    stamp = stamps.stamp_of(nb)
    if stamp is None:
        return "carries no stamp"
    if stamp.profile not in PUBLISHABLE:
        return f"was executed at profile {stamp.profile}, not {' or '.join(PUBLISHABLE)}"
    if stamp.data.name != "cifar10":
        return f"was executed on {stamp.data.name}, not on CIFAR-10"
    original = read_notebook(source)
    if stamp.notebook_sha256 != stamps.notebook_sha256(original):
        return "is stale: its notebook has changed since"
    if stamp.commit == "unknown" or stamp.commit.endswith("-dirty"):
        return f"was made from uncommitted code (commit {stamp.commit})"
    return None
