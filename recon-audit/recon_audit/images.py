"""Images that an audit compares with, from wherever their owner keeps them: memory, folders, files
of NumPy; arrays of any layout become one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from recon.errors import ReconError, one_reason
from recon.nets.network import Shape

SIDE = 8  # of the smallest image that is given as a row
TWICE = 16  # items that are read twice: a flip leaves an image as it was in half of the cases
MIN_IMAGES = 6  # with 5 of each even a perfect attack has p = 9/252 in `recon_audit.scoring.score`
BRIGHT, DARK = 16, 1000  # beside bytes, larger numbers are no [0, 1], and no 16 bits below
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
DEEP = ("I", "F")  # Pillow's modes of more than 8 bits a channel
PARTS = {"train": ("train",), "held_out": ("held", "test", "val")}
#: names that rows of Hugging Face have for their image, and for its label
COLUMNS = (
    ("image", "img", "pixel_values", "pixels"),
    ("label", "labels", "fine_label", "target"),
)
WITHOUT = (
    "without images that the network never saw, likeness by chance cannot be told from leakage"
)


@dataclass(frozen=True)
class Images:
    """
    Attributes:
        scaled: (n, C, H, W) float32, bytes over 255 and other numbers as they are.
        names: what the owner calls them, (n,).
        labels: (n, …) classes as their owner has them, None where unknown.
        note: "used N of M files", and why; "" where all were used.
        form: of a signal (C, L), or of a volume (C, D, H, W), whose pixels are (C, 1, L) and
            (C, D H, W); else ().
    """

    scaled: Tensor
    names: list[str]
    labels: np.ndarray | None = None
    note: str = ""
    form: Shape = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> Shape:
        """(C, H, W)."""
        return self.scaled.shape[1:]

    @property
    def flat(self) -> Tensor:
        """`scaled`, signals and volumes in one row a channel, (n, C, 1, L), as neither is moved or
        mirrored as pictures are.
        """
        return self.scaled.flatten(2)[:, :, None] if self.form else self.scaled

    def take(self, rows: list[int]) -> Images:
        """Some of them, without their labels."""
        return replace(
            self, scaled=self.scaled[rows], names=[self.names[row] for row in rows], labels=None
        )


@dataclass(frozen=True)
class Expected:
    """What is known of the images: of the network dim, the number of inputs, or channels, or
    neither, and axes, 1 for signals and 3 for volumes; of their owner how pictures are resized.
    """

    dim: int | None = None
    channels: int | None = None
    axes: int = 2
    resize: int | None = None
    crop: int | None = None


def as_array(source: Any) -> np.ndarray:
    """Of an array, or a tensor wherever it lies and of whatever type."""
    if isinstance(source, Tensor):
        source = source.detach().cpu().to_dense()
        source = source.float() if source.dtype == torch.bfloat16 else source
    return np.asarray(source)


@dataclass(frozen=True)
class Raw:
    """One set as it lies there: units and sizes are settled for both together.

    Attributes:
        part: its name.
        images: arrays (C, …), see `laid`.
        names: what the owner calls them, (n,).
        labels: (n, …), None where unknown.
        left: files that are left out, by the reason.
    """

    part: str
    images: list[np.ndarray]
    names: list[str]
    labels: Any = None
    left: Counter[str] = field(default_factory=Counter)


def settle(raws: Sequence[Raw], expected: Expected) -> list[Images]:
    """Sets of images of one size and in one unit; ReconError where there are none."""
    sizes = Counter(image.shape for raw in raws for image in raw.images)
    dims = expected.dim, expected.channels, expected.axes + 1
    for size in sizes:
        held = math.prod(size), size[0], len(size)
        sizes[size] *= all(wanted in (None, has) for wanted, has in zip(dims, held, strict=True))
    ((size, most),) = sizes.most_common(1) or [((0,), 0)]
    units = {}
    if size[:2] != (1, 1):
        units = _units_of([im for raw in raws for im in raw.images if im.shape == size])
    sets = []
    for raw in raws:
        fits = [image.shape == size for image in raw.images]
        left = raw.left + Counter({"of another size": fits.count(False)})
        why = ", ".join(f"{what}: {count}" for what, count in sorted(left.items()))
        count = sum(fits)
        note = f"{count} of {count + left.total()} files in {raw.part}{why and f' ({why})'}"
        if count < MIN_IMAGES or 2 * most <= sizes.total():
            raise ReconError(
                f"images must be of one size, {MIN_IMAGES} or more a set: {note} are, among shapes"
                f" {[*sizes][:3]}; give --resize 256 --crop 224, or what suits the network"
                " (resize=, crop=)"
            )
        with one_reason(f"{raw.part} labels must be a class for each image"):
            labels = None if raw.labels is None else as_array(raw.labels)[fits]
        pixels = np.empty((count, *size), np.float32)
        for k, image in enumerate(compress(raw.images, fits)):
            pixels[k] = image / units.get(image.dtype, units.get(None, 1))
        sets.append(
            Images(
                torch.from_numpy(pixels.reshape(count, size[0], -1, size[-1])),
                [*compress(raw.names, fits)],
                labels,
                f"used {note}" if left else "",
                () if expected.axes == 2 else size,
            )
        )
    return sets


def laid(source: Any, expected: Expected, name: str) -> np.ndarray:
    """(C, H, W), or (C, L) of a signal and (C, D, H, W) of a volume; channels last are put first.
    ReconError for what is no image.

    A row (d,) is an image where the network takes colours, and where it is a square of `SIDE`
    pixels or more, of bytes or of numbers in [0, 1]; else (1, 1, d): 100 features are no 10 × 10
    pixels.
    """
    array, colours = as_array(source), {expected.channels} - {None} or {1, 3, 4}
    if array.dtype.kind not in "biuf" or 0 in (array.ndim, *array.shape):
        raise ReconError(
            f"{name} must be uint8 or float of shape (H, W, C), not {array.dtype} {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ReconError(f"{name} holds numbers that are not finite")
    if expected.resize or expected.crop:
        raise ReconError("only pictures are resized and cropped, and arrays are no pictures")
    if array.ndim == expected.axes:
        return array[None]
    if array.ndim == 1:
        bright = array.dtype == np.uint8 or (array.min() >= 0 and array.max() <= 1)
        for channels in [expected.channels] if expected.channels else [3, 1] * bool(bright):
            side = math.isqrt(array.size // channels)
            if channels * side**2 == array.size and (expected.channels or side >= SIDE):
                return array.reshape(channels, side, side)
        return array[None, None]
    first, second, *_, last = *array.shape, array.shape[-1]
    in_colour = last in colours and (first not in colours or first == second)
    # bands of a sensor
    return np.moveaxis(array, -1, 0) if in_colour or first == second != last else array


def _units_of(blocks: list[np.ndarray]) -> dict[Any, int]:
    """What is 1, by dtype, None for all others: of bytes 255, of 16 bits 65535. Other numbers are
    bytes where all are whole and from 0 to 255, or go as far beside bytes; else they stay in units
    of their own.
    """
    units: dict[Any, int] = {np.dtype(np.uint8): 255}
    if any(block.dtype == np.uint16 and block.max() > 255 for block in blocks):
        units[np.dtype(np.uint16)] = 65535
    others = [block for block in blocks if block.dtype not in units]
    high = max(map(np.max, others), default=0)
    if len(others) < len(blocks):
        return units | {None: 1 if high <= BRIGHT else 255 if high < DARK else 65535}
    part = any((block < 0).any() or (block % 1).any() for block in others)
    return {None: 255 if 1 < high <= 255 and not part else 1}


def printable(path: Path | str) -> str:
    """The last part of a path for a reader: bytes that are no UTF-8, control characters and marks that turn the
    direction of writing are escaped.

    >>> printable("a\u202egnp.exe")
    'a\\\\u202egnp.exe'
    """  # noqa: E501
    text = str(path.name if isinstance(path, Path) else path)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# --------------------------------------------------------------------------------------- both sets


def load_images(train: Any, held_out: Any, expected: Expected) -> list[Images]:
    """[training images, held-out images].

    Without held_out, `train` is a folder with `train/` and `held_out/` or `train.npz` and
    `held_out.npz`, or one .npz with both arrays. ReconError for whatever is missing, unreadable, of
    another size or too few.

    Args:
        train, held_out: tensors or arrays (n, d), (n, H, W), (n, C, H, W) or (n, H, W, C), uint8 or
            float; a pair of images and labels, or a dictionary with both; a data set of PyTorch;
            files of images; the path of a folder of them (its subfolders are classes) or of an
            .npz.
    """
    whole = held_out is None
    if whole and not isinstance(train, str | Path):
        raise ReconError(f"there are no held-out images: {WITHOUT}")
    return settle(
        [
            raw_of(source, part, expected, whole)
            for part, source in zip(PARTS, (train, train if whole else held_out), strict=True)
        ],
        expected,
    )


def raw_of(source: Any, part: str, expected: Expected, whole: bool = False) -> Raw:
    """One set from whatever holds it, see `load_images`; whole: both sets."""
    where = f"the {part} dictionary"
    if isinstance(source, str | Path):
        path = Path(source)
        if whole and path.is_dir():
            path = path / part if (path / part).exists() else path / f"{part}.npz"
            whole = False
        if path.is_dir():
            return from_folder(path, expected)
        if not path.is_file():  # a pipe would be waited for without end
            raise ReconError(f"there is no folder and no file {path} with {part} images")
        with one_reason(f"{path} cannot be read as an .npz of plain arrays"):
            where, source = str(path), dict(np.load(path, allow_pickle=False))
    if isinstance(source, Mapping):
        return _from_archive(source, part, expected, where, whole)
    if isinstance(source, tuple | list) and len(source) == 2:
        return replace(raw_of(source[0], part, expected), labels=source[1])
    with one_reason(f"the {part} images cannot be read"):
        source = as_array(source) if isinstance(source, Tensor) else source
        names = [f"{part}[{row}]" for row in range(len(source))]
        items, again = ([_pair(source[k]) for k in range(len(names))[:n]] for n in (None, TWICE))
    raw, same = (_from_items(some, names, part, expected) for some in (items, again))
    if not all(map(np.array_equal, raw.images, same.images)):
        raise ReconError(
            f"the {part} data set gives another image each time that it is read: turn its"
            " augmentation off, so that an image is an image"
        )
    return raw


# -------------------------------------------------------------------------------------- one by one


def _from_items(
    items: list[tuple[Any, ...]], names: list[str], part: str, expected: Expected
) -> Raw:
    """Of (image,) or (image, label): an array, a picture, or a file of one."""
    return Raw(
        part,
        [_pixels_of(item[0], expected, name) for item, name in zip(items, names, strict=False)],
        names,
        [as_array(item[1]) for item in items if item[1:]] or None,
    )


def _pair(item: Any) -> tuple[Any, ...]:
    """(image,) or (image, label) of what a data set gives; rows of Hugging Face by the names of
    their columns.
    """
    if isinstance(item, Mapping):
        item = [item[name] for names in COLUMNS for name in names if name in item] or item
    return tuple(item[:2]) if isinstance(item, tuple | list) else (item,)


def _pixels_of(source: Any, expected: Expected, name: str) -> np.ndarray:
    """An array, see `laid`; (C, H, W) of a picture or a file of one, grey or in colour, whichever
    the network takes: uint8, of more bits uint16 or float32. The first frame of several;
    transparency is dropped.
    """
    if isinstance(source, str | Path):
        with one_reason(f"the image {source} cannot be read"), Image.open(source) as image:
            return _pixels_of(image, expected, name)
    if not isinstance(source, Image.Image):
        return laid(source, expected, name)
    if expected.resize:
        from torchvision.transforms.functional import resize

        source = resize(source, [expected.resize])
    if expected.crop:
        from torchvision.transforms.functional import center_crop

        if min(source.size) < expected.crop:
            raise ReconError(f"{name} has fewer than {expected.crop} pixels a side: give --resize")
        source = center_crop(source, [expected.crop])
    width, height = source.size
    deep = source.mode.startswith(DEEP)
    channels = (expected.dim or 0) // (width * height) or expected.channels
    if channels not in (1, 3):
        channels = 1 if deep or source.mode in ("1", "L", "LA") else 3
    if not deep:
        pixels = np.asarray(source.convert("RGB" if channels == 3 else "L"))
        return pixels.reshape(height, width, channels).transpose(2, 0, 1)
    pixels = np.asarray(source).astype(np.float32 if source.mode == "F" else np.uint16)
    return np.repeat(laid(pixels, Expected(), name), channels, axis=0)


# ------------------------------------------------------------------------------------------ on disk


def from_folder(folder: Path, expected: Expected) -> Raw:
    """Image files at any depth, also behind links; what is left out is counted.

    The name of the subfolder is the label where there are at least two with images; then a few
    images beside the subfolders are left out. An image that cannot be read is an error: a training
    image that is silently missing would be one that nobody looked for.
    """
    paths, visited, waiting = list[Path](), set[Path](), [folder]
    while waiting:
        at = waiting.pop()
        if at.resolve() not in visited:  # links may go round in circles
            visited.add(at.resolve())
            for path in at.iterdir():
                (waiting if path.is_dir() and path.name[0] != "." else paths).append(path)
    why = {path.relative_to(folder).parts: _why_left(path) for path in sorted(paths)}
    files = [file for file in why if not why[file]]
    deep = [file for file in files if file[1:]]
    classes = len({file[0] for file in deep}) > 1 and 2 * len(deep) > len(files)
    if classes:
        why |= {file: "in no class folder" for file in files if not file[1:]}
        files = deep
    names = [printable("/".join((folder.name, *file)).strip("/")) for file in files]
    items = [(folder.joinpath(*file), printable(file[0]))[: 1 + classes] for file in files]
    return replace(
        _from_items(items, names, printable(folder), expected),
        left=Counter(filter(None, why.values())),
    )


def _why_left(path: Path) -> str:
    """Why this is left out, "" for an image."""
    if path.name.startswith("."):
        return "hidden by a dot before the name"
    if not path.is_file():
        return "no ordinary file"
    return "" if path.suffix.lower() in SUFFIXES else "no image by its name"


def _from_archive(
    arrays: Mapping[str, Any], part: str, expected: Expected, where: str, whole: bool
) -> Raw:
    """The array of this part, or the only one that holds no labels; labels from the array that says
    so.

    Names are read by their words: `train`, `x_train`, `train_images`, with `train_labels`,
    `y_train` or `labels`; held out is `held_out`, else `test`, else `val`.
    """
    parsed = {name: _parse_name(str(name)) for name in arrays}
    images = [name for name in parsed if not parsed[name][1] and np.ndim(arrays[name]) > 1]
    chosen = [] if whole else images
    for which in PARTS[part][::-1]:
        chosen = [name for name in images if parsed[name][0] == which] or chosen
    parts = {None, *(parsed[name][0] for name in chosen)}
    labels = [name for name in parsed if parsed[name] in product(parts, [True])]
    if len(chosen) != 1 or len(labels) > 1:
        raise ReconError(
            f"{where} must hold one array of {part} images, and at most one of their labels, not"
            f" {', '.join(map(str, chosen + labels)) or 'none'}"
        )
    return replace(
        raw_of(as_array(arrays[chosen[0]]), part, expected),
        labels=arrays[labels[0]] if labels else None,
    )


def _parse_name(name: str) -> tuple[str | None, bool]:
    """(which part an array of this name is of, whether it holds labels).

    >>> [_parse_name(name) for name in ("x_train", "test_labels", "Ytrain", "held_out", "arr_0")]
    [('train', False), ('test', True), ('train', True), ('held', False), (None, False)]
    """
    part = re.search("train|test|held|val", name.lower())
    label = "label|target|class|(?<![a-z])y(?=[^a-z]|tr|te|va|$)|(in|st|al)y$"
    return part and part[0], bool(re.search(label, name.lower()))
