"""Where the files of a pool lie: the reader's data folder, the cache of downloads, torchvision's data sets."""

import http.client
import os
import socket
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recon.errors import ReconError

DOWNLOAD_TIMEOUT_S = 15.0
MIRRORS_FAILED = "Error downloading"  # how torchvision's MNIST begins a RuntimeError after the last of its mirrors


def cache_folder() -> Path:
    """Where a download is kept between runs: `$XDG_CACHE_HOME/recon`, by default `~/.cache/recon`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recon"


def named_root(root: str | Path | None) -> str | Path | None:
    """The data folder that somebody named: `root`, else `$RECON_DATA`, else None."""
    return root or os.environ.get("RECON_DATA") or None


@contextmanager
def reading(named: str | Path) -> Iterator[Path]:
    """The path of a data folder; what is unreadable, a name too long or an unknown ~user becomes a ReconError."""
    try:
        yield Path(named).expanduser()
    except (OSError, RuntimeError) as error:
        raise ReconError(f"the data folder {named} cannot be read: {error}") from error


def from_torchvision(dataset: Any, root: Path, download: bool, title: str) -> Any:
    """torchvision's training set `dataset` in `root`, downloaded with checksums if asked.  ReconError, in which the
    images are called `title`, for an unreachable download and for missing or damaged files."""
    previous = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)  # torchvision's downloader sets none of its own
    unreachable = f"{title} could not be downloaded to {root}"
    try:
        return dataset(str(root), train=True, download=download)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise ReconError(f"{unreachable}: {getattr(error, 'reason', error)}") from error
    except (RuntimeError, ValueError, EOFError, AssertionError, LookupError) as error:
        reason = " ".join(str(error).split())
        if reason.startswith(MIRRORS_FAILED):
            raise ReconError(f"{unreachable}: {reason}") from error
        raise ReconError(f"the {title} files in {root} are missing, truncated or damaged: {reason}") from error
    finally:
        socket.setdefaulttimeout(previous)
