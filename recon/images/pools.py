"""Where images come from, and which of them play which part.

Three sources (`cifar10` from torchvision's files, `cifar10` from the pixel-exact subset file, bundled `photos`) end in
the same noun, an `ImagePool`; `partition` draws from it by CIFAR-10 index and seed, so that both CIFAR-10 sources give
identical experiments and a spread over seeds is one over images.  Pixels are float32 in [0, 1], layout N C H W; flat
images are in the same C H W order.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import sys
import urllib.error
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError

SOURCES = ("auto", "cifar10", "photos")
SUBSET_FILE = "cifar10_subset.npz"
SUBSET_SHA256 = "43eaeba57c8b1e91d095c072a9d12d75d25f4338b02d07a6c22bf104e0d0d767"
TORCHVISION_FOLDER = "cifar-10-batches-py"

#: CIFAR-10 train indices that every experiment draws from: what the download and the subset file both hold.
INDEX_RANGES = {
    "train": (range(0, 1102),),
    "init": (range(10000, 11017), range(20000, 21017)),
    "held_out": (range(30000, 31017), range(40000, 41017)),
}
VEHICLES = (0, 1, 8, 9)  # airplane, automobile, ship, truck -> y = 0; the six animals -> y = 1
DOWNLOAD_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class ImagePool:
    """Images of one source with everything an experiment may ask of them.

    images: (N, 3, 32, 32) uint8 · labels: (N,) int64, CIFAR-10's ten classes (for `photos` as y) · y: (N,) int64 in
    {0, 1} · index: (N,) int64, the CIFAR-10 train index (for `photos` a running number) · part: (N,) of "train" |
    "init" | "held_out" · sha256: over pixels, y and indices, hence the same for the same images wherever they came
    from · notice: a sentence for the page when this is a stand-in · interchangeable: whether images of the other parts
    may be trained on, when those of "train" are used up.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    y: np.ndarray
    index: np.ndarray
    part: np.ndarray
    class_names: tuple[str, str]
    notice: str = ""
    interchangeable: bool = False
    sha256: str = field(default="", init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256()
        for array in (self.images, self.y.astype("<i8"), self.index.astype("<i8")):
            digest.update(np.ascontiguousarray(array).tobytes())
        object.__setattr__(self, "sha256", digest.hexdigest())


@dataclass(frozen=True)
class Partition:
    """x: (n, 3, 32, 32) float32 in [0, 1] · y: (n,) float32 in {0, 1} · index: (n,) int64 in the source."""

    x: Tensor
    y: Tensor
    index: Tensor

    def __len__(self) -> int:
        return len(self.y)

    @property
    def flat(self) -> Tensor:
        """Images as rows, (n, 3072), C H W order."""
        return self.x.flatten(1)


@dataclass(frozen=True)
class Dataset:
    """The three disjoint partitions of an experiment, balanced over the two classes.

    train: what the network is trained on · init: the "CIFAR partition" of start (c), with the labels of `train` row
    by row · held_out: never seen by training or attack, for null baselines only.
    """

    name: str
    sha256: str
    notice: str
    class_names: tuple[str, str]
    train: Partition
    init: Partition
    held_out: Partition

    def describe(self) -> dict:
        """What goes into a result file under `data`."""
        return {"name": self.name, "sha256": self.sha256, "n": len(self.train), "notice": self.notice}


def load_pool(source: str = "auto", root: str | Path | None = None) -> ImagePool:
    """Find the images of `source`.

    root: folder (or the subset file itself) to look in; default `$RECON_DATA`.  `cifar10` looks for the subset file or
    torchvision's folder there, else in the cache folder, else downloads.  `auto` is `cifar10` if obtainable, else
    `photos` with a notice.  Raises ReconError for an unknown source, a folder that is named but holds no CIFAR-10, a
    damaged file, or (for `cifar10`) an unreachable download.
    """
    if source not in SOURCES:
        raise ReconError(f"unknown data source '{source}': choose one of {', '.join(SOURCES)}")
    if source == "photos":
        return _photos()
    named = root or os.environ.get("RECON_DATA")
    if named:  # somebody said where: then a missing or damaged file is an error, never a silent substitute
        try:
            return _cifar10_at(Path(named).expanduser())
        except (OSError, RuntimeError) as error:  # unreadable, a name too long, an unknown ~user
            raise ReconError(f"the data folder {named} cannot be read: {error}") from error
    try:
        return _cifar10_torchvision(cache_folder(), download=True)
    except ReconError as unreachable:
        if source == "cifar10":
            raise
        print(f"recon: {unreachable}; going on with the bundled photographs", file=sys.stderr)
        return _photos()


def partition(
    pool: ImagePool, n_train: int, n_init: int | None = None, n_held_out: int = 200, seed: int = 0
) -> Dataset:
    """Draw balanced partitions by `seed`: n/2 of class 0, then n/2 of class 1, each in file order.

    n_train, n_init (default n_train), n_held_out: even counts of images.  Where the pool holds fewer (the bundled
    photographs do), every class is cut to what there is; `Dataset.describe()["n"]` tells.

    Seed s takes the s-th block of n/2 images of each class and part, so seed 0 the first in the file.  Sets of the same
    size at different seeds are disjoint while they last; from then on a seed takes a random subset.  Where the pool's
    parts are interchangeable (CIFAR-10), training sets go on into the other ranges, from their far ends, but for as
    many images as `init` and `held_out` have at seed 0.  The three sets of one seed are always disjoint.

    Raises ReconError for odd or non-positive counts and for a negative seed.
    """
    return partitions(pool, n_train, 1, n_init, n_held_out, seed)[0]


def partitions(
    pool: ImagePool, n_train: int, sets: int, n_init: int | None = None, n_held_out: int = 200, seed: int = 0
) -> list[Dataset]:
    """`sets` data sets as by `partition`, with training sets of their own; `init` and `held_out` are common to all.

    The training sets are disjoint from each other, and from those of other seeds, while images last: where the pool
    does not hold `sets` of them, each is a block or a random subset of its own.  The first of seed 0 is `partition`'s.
    """
    if seed < 0:
        raise ReconError(f"the seed must not be negative, not {seed}")
    counts = _counts(pool, n_train, n_init, n_held_out)
    rows = [_rows(pool, label, {part: n // 2 for part, n in counts.items()}, sets, seed) for label in (0, 1)]

    def draw(name: str) -> Partition:
        return _take(pool, np.concatenate([of_class[name] for of_class in rows]))

    init, held_out = draw("init"), draw("held_out")
    names = (pool.name, pool.sha256, pool.notice, pool.class_names)
    return [Dataset(*names, train=draw(f"train {k}"), init=init, held_out=held_out) for k in range(sets)]


def load(source: str, n_train: int, n_held_out: int = 200, root: str | Path | None = None, seed: int = 0) -> Dataset:
    """`load_pool` and `partition` in one call."""
    return partition(load_pool(source, root), n_train, n_held_out=n_held_out, seed=seed)


def centre(x: Tensor, mean: Tensor) -> Tensor:
    """Subtract the per-pixel mean of the *training* set: x - mean."""
    return x - mean


def uncentre(x: Tensor, mean: Tensor) -> Tensor:
    """Undo `centre`."""
    return x + mean


def cache_folder() -> Path:
    """Where a download is kept between runs: `$XDG_CACHE_HOME/recon`, by default `~/.cache/recon`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recon"


def _available(pool: ImagePool, part: str, n: int) -> int:
    per_class = [int(((pool.part == part) & (pool.y == label)).sum()) for label in (0, 1)]
    return min(n, 2 * min(per_class))


def _counts(pool: ImagePool, n_train: int, n_init: int | None, n_held_out: int) -> dict[str, int]:
    """Images of each part, cut to what the pool holds there: the same at every seed."""
    counts = {"train": n_train, "init": n_train if n_init is None else n_init, "held_out": n_held_out}
    for name, n in counts.items():
        if n <= 0 or n % 2:
            raise ReconError(f"the number of {name} images must be even and positive, not {n}")
    if n_init is None:  # row i of `init` replaces row i of `train`: both are cut to the same size
        counts["train"] = counts["init"] = min(_available(pool, "train", n_train), _available(pool, "init", n_train))
    return {name: _available(pool, name, n) for name, n in counts.items()}


def _rows(pool: ImagePool, label: int, sizes: dict[str, int], sets: int, seed: int) -> dict[str, np.ndarray]:
    """Rows of one class in the pool, ascending: "train 0", "train 1", …, "init", "held_out"; `sizes` of each."""
    own = {part: np.flatnonzero((pool.part == part) & (pool.y == label)) for part in sizes}
    order = np.append(own["train"], _lent(own, sizes)) if pool.interchangeable else own["train"]
    random = np.random.default_rng([seed, label])
    trained = _training_rows(order, sizes["train"], sets, seed, random)
    found = {f"train {k}": rows for k, rows in enumerate(trained)}
    taken = np.concatenate(trained)
    found |= {part: _block(own[part], sizes[part], seed, random, taken) for part in ("init", "held_out")}
    return {name: np.sort(rows) for name, rows in found.items()}


def _lent(own: dict[str, np.ndarray], sizes: dict[str, int]) -> np.ndarray:
    """What training may take of the other parts, from their far ends in turn: all but the sets that seed 0 has."""
    lent = [own[part][sizes[part] :][::-1] for part in ("init", "held_out")]
    turn = np.argsort(np.concatenate([np.arange(len(rows)) for rows in lent]), kind="stable")
    return np.concatenate(lent)[turn]


def _training_rows(order: np.ndarray, size: int, sets: int, seed: int, random: np.random.Generator) -> list[np.ndarray]:
    """`sets` times `size` rows, disjoint if `order` holds as many."""
    if sets * size <= len(order):
        return np.split(_block(order, sets * size, seed, random), sets)
    return [_block(order, size, sets * seed + k, random) for k in range(sets)]


def _block(
    order: np.ndarray, size: int, k: int, random: np.random.Generator, taken: np.ndarray | None = None
) -> np.ndarray:
    """The k-th `size` of `order`, or where some are missing or taken, a random `size` of all that are not taken."""
    free = ~np.isin(order, [] if taken is None else taken)
    block = slice(k * size, (k + 1) * size)
    if free[block].sum() == size:
        return order[block]
    return random.permutation(order[free])[:size]


def _take(pool: ImagePool, rows: np.ndarray) -> Partition:
    x = torch.from_numpy(pool.images[rows]).float() / 255
    return Partition(x, torch.from_numpy(pool.y[rows]).float(), torch.from_numpy(pool.index[rows]))


# ---------------------------------------------------------------------------------------------- CIFAR-10


def _cifar10_at(path: Path) -> ImagePool:
    if not path.exists():
        raise ReconError(f"the data folder {path} does not exist (given by --data-root or $RECON_DATA)")
    subset = path if path.is_file() else path / SUBSET_FILE
    if subset.is_file():
        return _cifar10_subset(subset)
    if (path / TORCHVISION_FOLDER).is_dir() or (path / f"{TORCHVISION_FOLDER[:8]}-python.tar.gz").is_file():
        return _cifar10_torchvision(path, download=not (path / TORCHVISION_FOLDER).is_dir())
    raise ReconError(f"the data folder {path} holds neither {SUBSET_FILE} nor {TORCHVISION_FOLDER}/")


def _cifar10_subset(path: Path) -> ImagePool:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SUBSET_SHA256:
        raise ReconError(
            f"{path} is damaged or is another file: its sha256 is {found[:12]}…, expected {SUBSET_SHA256[:12]}…"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            keep = ~file["is_test"]
            return _cifar10_pool(file["images"][keep], file["labels"][keep], file["index"][keep])
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise ReconError(f"{path} cannot be read: {error}") from error


def _cifar10_torchvision(root: Path, download: bool) -> ImagePool:
    from torchvision.datasets import CIFAR10

    previous = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)  # torchvision's downloader sets none of its own
    try:
        data = CIFAR10(str(root), train=True, download=download)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise ReconError(f"CIFAR-10 could not be downloaded to {root}: {getattr(error, 'reason', error)}") from error
    except (RuntimeError, ValueError, EOFError) as error:
        raise ReconError(f"the CIFAR-10 files in {root} are missing, truncated or damaged: {error}") from error
    finally:
        socket.setdefaulttimeout(previous)
    images, labels = np.asarray(data.data), np.asarray(data.targets, dtype=np.int64)
    return _cifar10_pool(images, labels, np.arange(len(labels)))


def _cifar10_pool(images: np.ndarray, labels: np.ndarray, index: np.ndarray) -> ImagePool:
    """Keep the index ranges that both sources hold, in ascending order of index."""
    row_of = {int(i): row for row, i in enumerate(index)}
    wanted = [(i, part) for part, ranges in INDEX_RANGES.items() for r in ranges for i in r]
    missing = [i for i, _ in wanted if i not in row_of]
    if missing:
        raise ReconError(f"the CIFAR-10 file lacks {len(missing)} of the images needed, first index {missing[0]}")
    rows = [row_of[i] for i, _ in wanted]
    return ImagePool(
        name="cifar10",
        images=np.ascontiguousarray(images[rows].transpose(0, 3, 1, 2)),
        labels=labels[rows],
        y=(~np.isin(labels[rows], VEHICLES)).astype(np.int64),
        index=np.asarray([i for i, _ in wanted], dtype=np.int64),
        part=np.asarray([part for _, part in wanted]),
        class_names=("vehicle", "animal"),
        interchangeable=True,
    )


# ------------------------------------------------------------------------------------ bundled photographs

#: photograph -> (class, where its package keeps it); built = 0, living = 1
PHOTOGRAPHS = {
    "china.jpg": (0, "sklearn.datasets", "images"),
    "coffee.png": (0, "skimage", "data"),
    "rocket.jpg": (0, "skimage", "data"),
    "motorcycle_left.png": (0, "skimage", "data"),
    "flower.jpg": (1, "sklearn.datasets", "images"),
    "astronaut.png": (1, "skimage", "data"),
    "chelsea.png": (1, "skimage", "data"),
}
PATCH = 32
MIN_CONTRAST = 12.0  # standard deviation of grey levels in 0..255 below which a patch is sky or wall


def _photos() -> ImagePool:
    """32×32 colour patches of photographs that scikit-learn and scikit-image ship, halved in size.

    Non-overlapping patches; columns of patches are dealt to the partitions in three contiguous bands per photograph,
    so that training, init and held-out patches are disjoint in space.
    """
    from importlib.resources import as_file, files

    from PIL import Image

    images, labels, parts = [], [], []
    for name, (label, package, folder) in PHOTOGRAPHS.items():
        with as_file(files(package) / folder / name) as path, Image.open(path) as file:
            photo = file.convert("RGB")
            half = np.asarray(photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.BOX))
        columns = half.shape[1] // PATCH
        for column in range(columns):
            part = ("train", "init", "held_out")[3 * column // columns]
            for row in range(half.shape[0] // PATCH):
                patch = half[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
                if patch.mean(axis=2).std() >= MIN_CONTRAST:
                    images.append(patch.transpose(2, 0, 1))
                    labels.append(label)
                    parts.append(part)
    return ImagePool(
        name="photos",
        images=np.stack(images),
        labels=np.asarray(labels, dtype=np.int64),
        y=np.asarray(labels, dtype=np.int64),
        index=np.arange(len(labels)),
        part=np.asarray(parts),
        class_names=("built", "living"),
        notice="Executed on bundled photographs, not CIFAR-10.",
    )
