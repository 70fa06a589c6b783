"""Handwritten digits: scikit-learn's small ones, which need no download, and MNIST with its fashionable twin."""

from pathlib import Path

import numpy as np

from recon.images import files
from recon.images.pool import ImagePool, thirds

DIGITS = tuple("0123456789")
GARMENTS = (*("T-shirt", "trousers", "pullover", "dress", "coat"), *("sandal", "shirt", "trainer", "bag", "ankle boot"))
TITLES = {"digits": "scikit-learn's digits", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
ACCESSORIES = (5, 7, 8, 9)  # footwear and bags: y = 1; the six garments are y = 0


def load_digits() -> ImagePool:
    """scikit-learn's 1797 digits, 8 × 8 grey with 17 levels (stretched to 0 … 255), ten classes: even against odd."""
    from sklearn.datasets import load_digits as bundled

    found = bundled()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)
    return _grey_pool("digits", images, found.target, found.target % 2, ("even", "odd"), DIGITS)


def load_idx(name: str, root: str | Path | None = None) -> ImagePool:
    """60 000 training images, 28 × 28 grey, ten classes: of MNIST even against odd, of Fashion-MNIST garments against
    accessories; ReconError if they are nowhere."""
    images, labels = _idx_files(name, root)
    if name == "mnist":
        return _grey_pool(name, images, labels, labels % 2, ("even", "odd"), DIGITS)
    return _grey_pool(name, images, labels, np.isin(labels, ACCESSORIES), ("garment", "accessory"), GARMENTS)


def _idx_files(name: str, root: str | Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 28, 28) uint8 and labels (N,) of a torchvision data set.  root: a folder that holds torchvision's
    `MNIST/raw` or `FashionMNIST/raw`; default `$RECON_DATA`.  Where there is none, the cache folder serves, into which
    the files are downloaded with their checksums.  ReconError if they cannot be had or read."""
    from torchvision.datasets import MNIST, FashionMNIST

    dataset = {"mnist": MNIST, "fashion-mnist": FashionMNIST}[name]
    folder, found, named = files.cache_folder(), False, files.named_root(root)
    if named:
        with files.reading(named) as path:
            found = (path / dataset.__name__ / "raw").is_dir()
            folder = path if found else folder
    data = files.from_torchvision(dataset, folder, download=not found, title=TITLES[name])
    return data.data.numpy(), data.targets.numpy().astype(np.int64)


def _grey_pool(
    name: str,
    images: np.ndarray,
    labels: np.ndarray,
    y: np.ndarray,
    y_names: tuple[str, str],
    class_names: tuple[str, ...],
) -> ImagePool:
    """Grey images (N, H, W) in file order, dealt to the three parts by `thirds`."""
    return ImagePool(
        name=name,
        images=np.ascontiguousarray(images[:, None]),
        labels=labels.astype(np.int64),
        y=y.astype(np.int64),
        index=np.arange(len(labels)),
        part=thirds(len(labels)),
        y_names=y_names,
        class_names=class_names,
        notice=f"Executed on {TITLES[name]}, not CIFAR-10.",
        interchangeable=True,
    )
