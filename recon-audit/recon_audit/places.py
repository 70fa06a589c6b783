"""Where a report goes: what earlier audits wrote there is replaced, and nothing else is touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recon.errors import ReconError
from recon.store.files import check_writable, only_one

FILES = ("report.html", "report.json")
FOLDER = "audit-attack"  # in the output folder: what attacks recovered
#: in every file that an audit writes
MARKS = (
    b"<h1>What do these weights give away?</h1>",
    b'"schema": "recon-audit/',
    b'"x_hat":{"dtype"',
)


def written(path: Path) -> bool:
    """Whether an audit wrote this file."""
    return path.is_file() and any(mark in path.read_bytes() for mark in MARKS)


@contextmanager
def fresh_place(folder: Path | None) -> Iterator[Path | None]:
    """An empty folder, whose files are moved into `folder` in the end. What earlier audits wrote
    there goes, also where the block fails. ReconError where a file of somebody else's is in the
    way, or another audit is at work.
    """
    if folder is None:
        yield None
        return
    with only_one(folder, ".audit.*"):
        check_writable(folder, FILES)
        for name in FILES:
            if (folder / name).exists() and not written(folder / name):
                raise ReconError(f"{folder / name} is no report of an audit: use another folder")
        with tempfile.TemporaryDirectory(prefix=".audit.", dir=folder) as fresh:
            try:
                yield Path(fresh)
            finally:
                for path in (*folder.glob("report.*"), *folder.glob(f"{FOLDER}/*")):
                    if written(path):
                        path.unlink()
            for file in [path for path in Path(fresh).rglob("*") if path.is_file()]:
                place = folder / file.relative_to(fresh)
                place.parent.mkdir(exist_ok=True)
                os.replace(file, place)
