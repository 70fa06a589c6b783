"""A reader's own folder of image files as a pool."""

import re
from pathlib import Path

import numpy as np
from PIL import Image

from recon.errors import ReconError, one_reason
from recon.images.pool import ImagePool, thirds

GREY = ("1", "L", "LA")  # Pillow's modes


def load(root: str | Path) -> ImagePool:
    """The images below `root`, in the order of their names; laid out as torchvision's ImageFolder
    reads them. With images in subfolders each of these is a class, and y tells the first half of
    the classes (the smaller one, if their number is odd) from the second; images beside the
    subfolders are not read. Without subfolders there are no classes: y is then drawn at random,
    half and half, and the notice says so. All images must have one height and width, nothing is
    cropped or resized; they are grey if every file is, else in colour. Of files with the same
    pixels the first counts, or one could be trained on while the other is held out. ReconError for
    a missing folder, no images, one class alone, unreadable files, more than 8 bits a channel, and
    images of different sizes.
    """
    with one_reason(f"the data folder {root} cannot be read"):
        path = Path(root).expanduser()
        if not path.is_dir():
            raise ReconError(f"there is no folder {path} with images")
        classes, label_of = _list_images(path)
        images = _one_shape({file: _read(file) for file in label_of})
        name = re.sub(r"[^A-Za-z0-9]+", "-", path.resolve().name).strip("-").lower() or "images"
    _, firsts = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)
    rows = np.sort(firsts)
    labels = np.asarray(list(label_of.values()), dtype=np.int64)[rows]
    notice = f"Executed on the images of a folder ({name}), not CIFAR-10."
    if not classes:
        labels = (np.random.default_rng(0).permutation(len(rows)) % 2).astype(np.int64)
        notice += "  They have no classes: their labels are drawn at random."
    return ImagePool(
        name=f"folder-{name}",
        images=images[rows],
        labels=labels,
        y=(labels >= max(classes // 2, 1)).astype(np.int64),
        index=np.arange(len(labels)),
        part=thirds(len(labels)),
        notice=notice,
        interchangeable=True,
    )


def _list_images(folder: Path) -> tuple[int, dict[Path, int]]:
    """The number of classes, 0 where no subfolder holds an image, and the class of every image."""
    by_class = {sub.name: _image_files(sub) for sub in sorted(folder.iterdir()) if sub.is_dir()}
    names = [name for name, images in by_class.items() if images]
    if len(names) == 1:
        raise ReconError(
            f"all images of {folder} are in one class, {names[0]}: at least two subfolders are"
            " needed"
        )
    label_of = {file: label for label, name in enumerate(names) for file in by_class[name]}
    label_of = label_of or dict.fromkeys(_image_files(folder), 0)
    if not label_of:
        raise ReconError(f"there are no images (png, jpg) in {folder}")
    return len(names), label_of


def _image_files(folder: Path) -> list[Path]:
    from torchvision.datasets.folder import IMG_EXTENSIONS

    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in IMG_EXTENSIONS and path.is_file()
    )


def _read(file: Path) -> np.ndarray:
    """Pixels (C, H, W) uint8, grey or in colour as in the file."""
    with one_reason(f"the image {file} cannot be read"), Image.open(file) as image:
        if image.mode.startswith(("I", "F")):
            raise ReconError(f"{file} has more than 8 bits a channel")
        pixels = np.asarray(image.convert("L" if image.mode in GREY else "RGB"))
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _one_shape(pixels: dict[Path, np.ndarray]) -> np.ndarray:
    """All images (N, C, H, W); grey ones are repeated over the channels where others have
    colour.
    """
    first = next(iter(pixels))
    for file, image in pixels.items():
        if image.shape[1:] != pixels[first].shape[1:]:
            sizes = " and ".join(
                f"{p.name} is {pixels[p].shape[2]} × {pixels[p].shape[1]}" for p in (first, file)
            )
            raise ReconError(f"the images of a folder must have one width and height, and {sizes}")
    channels = max(len(image) for image in pixels.values())
    return np.stack(
        [np.broadcast_to(image, (channels, *image.shape[1:])) for image in pixels.values()]
    )
