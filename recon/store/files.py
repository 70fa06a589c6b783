"""Files that are whole or not there at all, and folders that one run has to itself."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from recon.errors import ReconError


@contextmanager
def one_sentence(what: str) -> Iterator[None]:
    """An OSError of the block becomes a ReconError: `what`, and the system's reason."""
    try:
        yield
    except OSError as error:
        raise ReconError(f"{what}: {error.strerror or error}") from error


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Write to the path given by `with`; it replaces `path` only if the block succeeds.

    ReconError where `path` cannot be written: a full or read-only disk, a file in the way of its folder.
    """
    with one_sentence(f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        try:
            yield Path(name)
            os.chmod(name, 0o644)  # mkstemp's 0600 is for secrets
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)


@contextmanager
def only_one(folder: Path, *leftovers: str) -> Iterator[None]:
    """Hold `folder`, made if need be; ReconError if another process holds it, or it cannot be made.

    leftovers: patterns of what killed runs left in it, removed first.  The lock is on the folder itself: nothing lies
    about, and the kernel lets go of it however its holder ends.
    """
    unwritable, free = f"results cannot be written to {folder}", True
    with ExitStack() as held:
        with one_sentence(unwritable):
            folder.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # Windows opens no folders, some disks have no locks: there atomic writes have to do
            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            free = lock_descriptor(handle, blocking=False)
        if not free:
            raise ReconError(f"another run is at work in {folder}: wait until it is done, or use another folder")
        with one_sentence(unwritable):
            for path in (path for pattern in leftovers for path in folder.glob(pattern)):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
        yield


def check_writable(folder: Path, names: tuple[str, ...]) -> None:
    """ReconError, before hours of work and not after, if `folder` cannot take files of these names."""
    with one_sentence(f"results cannot be written to {folder}"), tempfile.TemporaryFile(dir=folder):
        for name in names:
            if (folder / name).is_dir():
                raise ReconError(f"results cannot be written to {folder}: {name} is a folder")
