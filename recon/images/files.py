"""Where the files of a pool lie: the reader's data folder and the cache of downloads."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where a download is kept between runs: `$XDG_CACHE_HOME/recon`, by default
    `~/.cache/recon`.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recon"


def named_root(root: str | Path | None) -> str | Path | None:
    """The data folder that somebody named: `root`, else `$RECON_DATA`, else None."""
    return root or os.environ.get("RECON_DATA") or None
