"""Files that are whole or not there at all, and folders that one run has to itself."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
    """Write to the path given by `with`; it replaces `path` only if the block succeeds. It lies in
    a folder `.NAME.…` beside `path`, as does whatever else its writer puts there, which goes with
    the block; what a kill leaves is swept by `only_one`. ReconError where `path` cannot be written:
    a full or read-only disk, a file in the way of its folder.
    """
    with one_sentence(f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            temporary = Path(folder, path.name)
            yield temporary
            os.replace(temporary, path)


@contextmanager
def only_one(folder: Path, *leftovers: str) -> Iterator[None]:
    """Hold `folder`, made if need be; ReconError if another process holds it, or it cannot be made.
    The lock is on the folder itself: nothing lies about. Where there are no locks, atomic writes
    have to do.

    Args:
        leftovers: patterns of folders that killed runs left in it, removed first.
    """
    with one_sentence(f"results cannot be written to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            # the kernel lets go of it however its holder ends
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ReconError(
                f"another run is at work in {folder}: wait until it is done, or use another folder"
            ) from error
        except (ImportError, OSError):  # Windows has no locks on folders, nor have some disks
            pass
        for pattern in leftovers:
            for path in folder.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)
        yield


def check_writable(folder: Path, names: tuple[str, ...]) -> None:
    """ReconError, before hours of work and not after, if `folder` cannot take files of these
    names.
    """
    with one_sentence(f"results cannot be written to {folder}"), tempfile.TemporaryFile(dir=folder):
        for name in names:
            if (folder / name).is_dir():
                raise ReconError(f"results cannot be written to {folder}: {name} is a folder")
