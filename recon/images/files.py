"""Where the files of a pool lie: the reader's data folder and the cache of downloads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recon.errors import ReconError


def cache_folder() -> Path:
    """Where a download is kept between runs: `$XDG_CACHE_HOME/recon`, by default
    `~/.cache/recon`.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recon"


def named_root(root: str | Path | None) -> str | Path | None:
    """The data folder that somebody named: `root`, else `$RECON_DATA`, else None."""
    return root or os.environ.get("RECON_DATA") or None


@contextmanager
def reading(named: str | Path) -> Iterator[Path]:
    """The path of a data folder; what is unreadable, a name too long or an unknown ~user becomes a
    ReconError.
    """
    try:
        yield Path(named).expanduser()
    except (OSError, RuntimeError) as error:
        raise ReconError(f"the data folder {named} cannot be read: {error}") from error
