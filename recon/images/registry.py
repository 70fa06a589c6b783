"""The pools of images by name: where `--data` and every experiment get theirs from."""

import sys
from collections.abc import Callable
from pathlib import Path

from recon.errors import ReconError
from recon.images import cifar, digits, folder, photos
from recon.images.files import named_root
from recon.images.pool import ImagePool

FOLDER = "folder:PATH"

#: name -> a function of the data folder (or None: `$RECON_DATA`, else the cache); of "folder:PATH",
#: of that path
REGISTRY: dict[str, Callable[[str | Path | None], ImagePool]] = {
    "cifar10": cifar.load,
    "photos": lambda _: photos.load(),
    "digits": lambda _: digits.load_digits(),
    FOLDER: lambda path: folder.load(path or "."),
}
SOURCES = ("auto", *REGISTRY)


def load_pool(source: str = "auto", root: str | Path | None = None) -> ImagePool:
    """Find the images of `source`: a name of `REGISTRY`, in which PATH stands for a folder of
    images, or `auto`. `auto` is `cifar10` if obtainable, else `photos` with a notice. Raises
    ReconError for an unknown source, and for images that are missing, damaged or out of reach: see
    the pool's own loader.

    Args:
        root: folder to look in; default `$RECON_DATA`, else the cache folder, which downloads go
            to.
    """
    kind, _, path = source.partition(":")
    if kind == "folder" and path:
        return REGISTRY[FOLDER](path)
    if source not in SOURCES or source == FOLDER:
        raise ReconError(f"unknown data source '{source}': choose one of {', '.join(SOURCES)}")
    if source != "auto":
        return REGISTRY[source](root)
    try:
        return REGISTRY["cifar10"](root)
    except ReconError as unreachable:
        # somebody said where: no silent substitute for a missing or damaged file
        if named_root(root):
            raise
        print(f"recon: {unreachable}; going on with the bundled photographs", file=sys.stderr)
        return REGISTRY["photos"](root)
