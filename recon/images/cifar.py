"""CIFAR-10, from torchvision's files or from the pixel-exact subset file: the same images under the
same indices.
"""

import hashlib
import socket
from pathlib import Path

import numpy as np

from recon.errors import ReconError, one_reason
from recon.images import files
from recon.images.pool import ImagePool

SUBSET_FILE = "cifar10_subset.npz"
SUBSET_SHA256 = "43eaeba57c8b1e91d095c072a9d12d75d25f4338b02d07a6c22bf104e0d0d767"
TORCHVISION_FOLDER = "cifar-10-batches-py"
TORCHVISION_ARCHIVE = "cifar-10-python.tar.gz"
DOWNLOAD_TIMEOUT_S = 15.0

#: CIFAR-10 train indices that every experiment draws from: what the download and the subset file
#: both hold.
INDEX_RANGES = {
    "train": (range(0, 1102),),
    "init": (range(10000, 11017), range(20000, 21017)),
    "held_out": (range(30000, 31017), range(40000, 41017)),
}
VEHICLES = (0, 1, 8, 9)  # y = 0; the six animals are y = 1


def load(root: str | Path | None = None) -> ImagePool:
    """CIFAR-10: vehicles against animals. ReconError for a folder that is named but holds no
    CIFAR-10, a damaged file, an unreachable download.

    Args:
        root: folder (or the subset file itself) to look in; default `$RECON_DATA`, else the cache
            folder, into which it is downloaded.
    """
    named = files.named_root(root)
    if not named:
        return _from_torchvision(files.cache_folder(), download=True)
    with one_reason(f"the data folder {named} cannot be read"):
        return _from_folder(Path(named).expanduser())


def _from_folder(path: Path) -> ImagePool:
    if not path.exists():
        raise ReconError(
            f"the data folder {path} does not exist (given by --data-root or $RECON_DATA)"
        )
    subset = path if path.is_file() else path / SUBSET_FILE
    if subset.is_file():
        return _from_subset(subset)
    unpacked = (path / TORCHVISION_FOLDER).is_dir()
    if unpacked or (path / TORCHVISION_ARCHIVE).is_file():
        return _from_torchvision(path, download=not unpacked)
    raise ReconError(
        f"the data folder {path} holds neither {SUBSET_FILE} nor {TORCHVISION_FOLDER}/"
    )


def _from_subset(path: Path) -> ImagePool:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if sha256 != SUBSET_SHA256:
        raise ReconError(
            f"{path} is damaged or is another file: its sha256 is {sha256[:12]}…, expected"
            f" {SUBSET_SHA256[:12]}…"
        )
    with one_reason(f"{path} cannot be read"), np.load(path, allow_pickle=False) as file:
        keep = ~file["is_test"]
        return pool_of(file["images"][keep], file["labels"][keep], file["index"][keep])


def _from_torchvision(root: Path, download: bool) -> ImagePool:
    from torchvision.datasets import CIFAR10

    previous = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)  # torchvision's downloader sets none of its own
    try:
        with one_reason(f"CIFAR-10 in {root} is damaged, or could not be downloaded to there"):
            data = CIFAR10(str(root), train=True, download=download)
    finally:
        socket.setdefaulttimeout(previous)
    images, labels = np.asarray(data.data), np.asarray(data.targets, dtype=np.int64)
    return pool_of(images, labels, np.arange(len(labels)))


def pool_of(images: np.ndarray, labels: np.ndarray, index: np.ndarray) -> ImagePool:
    """Images (N, 32, 32, 3) uint8, labels and train indices (N,) as a pool: those of
    `INDEX_RANGES`, in ascending order of index; ReconError if any of them is missing.
    """
    row_of = {int(i): row for row, i in enumerate(index)}
    wanted = [(i, part) for part, ranges in INDEX_RANGES.items() for r in ranges for i in r]
    missing = [i for i, _ in wanted if i not in row_of]
    if missing:
        raise ReconError(
            f"the CIFAR-10 file lacks {len(missing)} of the images needed, first index {missing[0]}"
        )
    rows = [row_of[i] for i, _ in wanted]
    return ImagePool(
        name="cifar10",
        images=np.ascontiguousarray(images[rows].transpose(0, 3, 1, 2)),
        labels=labels[rows],
        y=(~np.isin(labels[rows], VEHICLES)).astype(np.int64),
        index=np.asarray([i for i, _ in wanted], dtype=np.int64),
        part=np.asarray([part for _, part in wanted]),
        interchangeable=True,
    )
