"""Files that are whole or not there at all, and folders that one run has to itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from recon.errors import ReconError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Write to the path given by `with`; it replaces `path` only if the block succeeds.

    ReconError where `path` cannot be written: a full or read-only disk, a file in the way of its folder.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o644)  # mkstemp's 0600 is for secrets
        os.replace(temporary, path)
    except OSError as error:
        raise ReconError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_writable(folder: Path, names: tuple[str, ...]) -> None:
    """ReconError, before hours of work and not after, if `folder` cannot take files of these names.

    Removes what a killed `atomic_path` left of them; call it inside `only_one`.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        for name in names:
            if (folder / name).is_dir():
                raise ReconError(f"results cannot be written to {folder}: {name} is a folder")
        remove_leftovers(folder, *(f".{name}.*" for name in names))
    except OSError as error:
        raise ReconError(f"results cannot be written to {folder}: {error.strerror or error}") from error


def remove_leftovers(folder: Path, *patterns: str) -> None:
    """Temporary files and folders of runs that were killed; call it inside `only_one`."""
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold `folder`, made if need be; ReconError if another process holds it.

    The lock is on the folder itself: nothing lies about, and the kernel lets go of it however its holder ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReconError(f"results cannot be written to {folder}: {error.strerror or error}") from error
    handle, free = None, True
    try:
        handle = os.open(folder, os.O_RDONLY)
        free = lock_descriptor(handle, blocking=False)
    except OSError:
        pass  # Windows opens no folders, some disks have no locks: there atomic writes have to do
    try:
        if not free:
            raise ReconError(f"another run is at work in {folder}: wait until it is done, or use another folder")
        yield
    finally:
        if handle is not None:
            os.close(handle)
