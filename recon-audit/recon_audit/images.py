"""Images that an audit compares with, from wherever their owner keeps them: memory, folders, files
of NumPy; arrays of any layout become one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from recon.errors import ReconError, one_reason
from recon.images.pool import shape_of

SIDE = 8  # of the smallest image that is given as a row
# correlation of neighbours: that much above all pairs': digits .3, photographs .5, columns of a
# table 0
ALIKE = 0.15
MOST_ROWS = 500
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
        pixels: (n, C, H, W), uint8 or float32.
        names: what the owner calls them, (n,).
        labels: (n, …) classes as their owner has them, None where unknown.
        note: "used N of M files, because …", "" where all were used.
        form: of a signal (C, L), or of a volume (C, D, H, W), whose pixels are (C, 1, L) and
            (C, D H, W); else ().
    """

    pixels: np.ndarray
    names: list[str]
    labels: np.ndarray | None = None
    note: str = ""
    form: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W)."""
        return self.pixels.shape[1:]

    @property
    def scaled(self) -> Tensor:
        """(n, C, H, W) float32: bytes over 255, floats as they are."""
        tensor = torch.from_numpy(self.pixels)
        return tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor.float()

    @property
    def flat(self) -> Tensor:
        """`scaled`, signals and volumes in one row a channel, (n, C, 1, L), as neither is moved or
        mirrored as pictures are.
        """
        return self.scaled.flatten(2)[:, :, None] if self.form else self.scaled

    def take(self, rows: list[int]) -> Images:
        """Some of them."""
        labels = None if self.labels is None else self.labels[rows]
        names = [self.names[row] for row in rows]
        return replace(self, pixels=self.pixels[rows], names=names, labels=labels)

    def picture(self, pixels: Tensor) -> np.ndarray:
        """(H, W, C) uint8 of pixels (C, H, W), to look at; the range of all images, where that
        leaves [0, 1], goes from black to white.
        """
        low, high = 0.0, 1.0
        if self.pixels.dtype != np.uint8:
            low, high = min(low, float(self.pixels.min())), max(high, float(self.pixels.max()))
        grey = (pixels - low) / (high - low)
        if len(pixels) not in (1, 3):  # bands that are no colours: their mean
            grey = grey.mean(0, keepdim=True)
        return (grey.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()


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

    def colours(self, width: int, height: int, default: int) -> int | None:
        """1 or 3 for an image of this size with `default` colours; None where it does not fit."""
        if self.dim is not None:
            channels, remainder = divmod(self.dim, width * height)
            return channels if not remainder and channels in (1, 3) else None
        return self.channels if self.channels in (1, 3) else default


def as_array(source: Any) -> np.ndarray:
    """Of an array, or a tensor wherever it lies and of whatever type."""
    if isinstance(source, Tensor):
        source = source.detach().cpu().to_dense()
        source = source.float() if source.dtype == torch.bfloat16 else source
    return np.asarray(source)


@dataclass(frozen=True)
class Raw:
    """One set as it lies there: units, sizes and the order of axes are settled for both together.

    Attributes:
        part: its name.
        blocks: an array (n, …) of images that lie in memory, or (1, C, H, W) of each picture.
        names: what the owner calls them, (n,).
        labels: (n, …), None where unknown.
        left: files that are left out, by the reason.
        pictures: whether they are.
    """

    part: str
    blocks: list[np.ndarray]
    names: list[str]
    labels: Any = None
    left: Counter[str] = field(default_factory=Counter)
    pictures: bool = False

    def among(self, rows: list[int]) -> Raw:
        """With these blocks: the others are of another size."""
        if len(rows) == len(self.blocks):
            return self
        left = self.left + Counter({"of another size": len(self.blocks) - len(rows)})
        labels = None if self.labels is None else self.labels[rows]
        names, blocks = [self.names[row] for row in rows], [self.blocks[row] for row in rows]
        return replace(self, blocks=blocks, names=names, labels=labels, left=left)

    @property
    def note(self) -> str:
        """For the report."""
        n, left = len(self.names), sorted(self.left.items())
        why = ", ".join(f"{k} {'is' if k == 1 else 'are'} {what}" for what, k in left if k)
        used = f"used {n} of {n + self.left.total()} files in {self.part}, because {why}"
        return used if self.left.total() else ""


def settle(raws: Sequence[Raw], expected: Expected) -> list[Images]:
    """Sets of images in one layout, of one size and in one unit."""
    every = [block for raw in raws for block in raw.blocks]
    if (expected.resize or expected.crop) and not all(raw.pictures for raw in raws):
        raise ReconError("only pictures are resized and cropped, and arrays are no pictures")
    shape: tuple[int, ...] = ()
    if rows := [block for block in every if block.ndim == 2 == expected.axes]:
        others = [_lay(b, (), expected, raw) for raw in raws for b in raw.blocks if b.ndim > 2]
        shape = others[0].shape[1:] if others else _shape_of_rows(np.concatenate(rows), expected)
    raws = [
        replace(raw, blocks=[_lay(b, shape, expected, raw) for b in raw.blocks]) for raw in raws
    ]
    sizes = Counter(block.shape[1:] for raw in raws for block in raw.blocks for _ in block)
    size, most = sizes.most_common(1)[0]
    raws = [raw.among([k for k, b in enumerate(raw.blocks) if b.shape[1:] == size]) for raw in raws]
    if 2 * most <= sizes.total() or not all(raw.blocks for raw in raws):
        held = " and ".join(map(str, list(sizes)[:2]))
        mend = "give --resize 256 --crop 224, or what suits the network (resize=, crop=)"
        raise ReconError(f"images differ in shape (C, H, W), {held}: {mend}")
    read = np.float32 if shape[:2] == (1, 1) else _unit_of([b for raw in raws for b in raw.blocks])
    sets = []
    for raw in raws:
        pixels = np.concatenate([*map(read, raw.blocks)])
        pixels = np.ascontiguousarray(pixels.reshape(len(pixels), size[0], -1, size[-1]))
        form = () if expected.axes == 2 else size
        sets.append(Images(pixels, raw.names, raw.labels, raw.note, form))
    return sets


def _lay(array: np.ndarray, rows: tuple[int, ...], expected: Expected, raw: Raw) -> np.ndarray:
    """(n, C, H, W), or (n, C, L) of signals and (n, C, D, H, W) of volumes; channels last are put
    first. ReconError for what are no images, or none for the network.
    """
    what = f"the {raw.part} images"
    if array.dtype.kind not in "biuf" or array.ndim < 2 or 0 in array.shape:
        held = f"{array.dtype} {array.shape}"
        raise ReconError(f"{what} must be uint8 or float of shape (N, H, W, C), not {held}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ReconError(f"{what} hold numbers that are not finite")
    if rows and array.ndim == 2 and array[0].size == math.prod(rows):
        array = array.reshape(len(array), *rows)
    elif array.ndim == expected.axes + 1:
        array = array[:, None]
    elif array.ndim > 2 and not raw.pictures and _channels_last(array.shape[1:], expected.channels):
        array = np.moveaxis(array, -1, 1)
    fits = expected.channels in (None, array.shape[1]) and expected.dim in (None, array[0].size)
    if array.ndim != expected.axes + 2 or not fits:
        wanted = f"{expected.dim} inputs" if expected.dim else f"{expected.channels} colours"
        raise ReconError(
            f"{what} of shape {array.shape[1:]} do not make {wanted}, grey or in colour"
        )
    return array


def _unit_of(blocks: list[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Bytes stay as they are, 16 bits go from 0 to 1. Other numbers are bytes where all are whole
    and from 0 to 255, or go as far beside bytes; else they stay in units of their own.
    """
    deep = max((block.max() for block in blocks if block.dtype == np.uint16), default=0) > 255
    units = {np.dtype(np.uint8): 255} | ({np.dtype(np.uint16): 65535} if deep else {})
    others = [block for block in blocks if block.dtype not in units]
    low, high = min(map(np.min, others), default=0), max(map(np.max, others), default=0)
    whole = all(block.dtype.kind in "iu" or not (block % 1).any() for block in others)
    unit = 255 if whole and low >= 0 and 1 < high <= 255 else 1
    if len(others) < len(blocks) and high > BRIGHT:
        unit = 255 if high < DARK else 65535
    if whole and all(units.get(block.dtype, unit) == 255 for block in blocks):
        return lambda block: block.astype(np.uint8)
    return lambda block: (block / units.get(block.dtype, unit)).astype(np.float32)


def _channels_last(shape: tuple[int, ...], channels: int | None) -> bool:
    """Whether images of this shape are (H, W, C) and not (C, H, W)."""
    first, last = shape[0], shape[-1]
    if channels is not None and (first == channels) != (last == channels):
        return last == channels
    if last in (1, 3, 4):
        return first not in (1, 3) or first == shape[1]
    return first == shape[1] != last  # bands of a sensor


def _shape_of_rows(array: np.ndarray, expected: Expected) -> tuple[int, ...]:
    """(C, H, W) of rows (n, d), (1, 1, d) where they are no images: 100 features are no 10 × 10
    pixels.

    Square images of `SIDE` pixels or more, in which numbers that would be neighbours go together
    from row to row: in both directions their mean correlation is `ALIKE` above that of all pairs. A
    network that takes C colours takes images.
    """
    rows, dim = array.shape
    nothing = (1, 1, dim)
    if expected.channels is not None:
        side = math.isqrt(dim // expected.channels)
        return (
            (expected.channels, side, side) if expected.channels * side * side == dim else nothing
        )
    try:
        shape = shape_of(dim)
    except ReconError:
        return nothing
    if shape[1] < SIDE:
        return nothing
    part = array[:: max(1, rows // MOST_ROWS)].astype(np.float64).reshape(-1, *shape)
    spread = part.std(0)
    z = (part - part.mean(0)) / np.where(spread > 0, spread, 1)
    common = z.mean((1, 2, 3)).var() + ALIKE
    for axis in (2, 3):
        near, far = (np.take(z, range(k, z.shape[axis] - 1 + k), axis) for k in (0, 1))
        vary = (near != 0).any(0) & (far != 0).any(0)
        if not vary.any() or (near * far).mean(0)[vary].mean() < common:
            return nothing
    return shape


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


def load_images(
    train: Any, held_out: Any = None, expected: Expected | None = None
) -> tuple[Images, Images]:
    """(training images, held-out images).

    Without held_out, `train` is a folder with `train/` and `held_out/` or `train.npz` and
    `held_out.npz`, or one .npz with both arrays. ReconError for whatever is missing, unreadable, of
    another size, too few, or in both.

    Args:
        train, held_out: `Images`, tensors or arrays (n, d), (n, H, W), (n, C, H, W) or (n, H, W,
            C), uint8 or float; a pair of images and labels, or a dictionary with both; a data set
            of PyTorch; files of images; the path of a folder of them (its subfolders are classes)
            or of an .npz.
    """
    expected = expected or Expected()
    if held_out is not None:
        parts = [raw_of(train, "train", expected), raw_of(held_out, "held_out", expected)]
    elif isinstance(train, str | Path):
        data = _check_exists(Path(train))
        parts = [_part_of(data, part, expected) for part in PARTS]
    else:
        raise ReconError(f"there are no held-out images: {WITHOUT}")
    return check_pair(*settle(parts, expected))


def images_of(source: Any, part: str, expected: Expected) -> Images:
    """One set of images alone; see `load_images`."""
    return settle([raw_of(source, part, expected)], expected)[0]


def _check_exists(path: Path) -> Path:
    if not path.exists():
        raise ReconError(f"there is no data at {path}")
    return path


def check_pair(train: Images, held_out: Images) -> tuple[Images, Images]:
    """Both, enough of them, and none in both."""
    for name, part in (("training", train), ("held-out", held_out)):
        if len(part) < MIN_IMAGES:
            note = f" ({part.note})" if part.note else ""
            few = f"with fewer than {MIN_IMAGES} nothing is significant{note}"
            raise ReconError(f"there are only {len(part)} {name} images, and {few}")
    known = {_digest(image): name for image, name in zip(train.pixels, train.names, strict=True)}
    digests = map(_digest, held_out.pixels)
    shared = {row: known[digest] for row, digest in enumerate(digests) if digest in known}
    if shared:
        row, twin = next(iter(shared.items()))
        name = held_out.names[row]
        if len(held_out) - len(shared) < MIN_IMAGES:
            never = "held-out images must be ones that the network never saw"
            raise ReconError(f"{name} is the training image {twin}: {never}")
        note = f"{len(shared)} held-out images are training images (the first: {name}) and left out"
        left = held_out.take([row for row in range(len(held_out)) if row not in shared])
        held_out = replace(left, note="; ".join(filter(None, (held_out.note, note))))
    return train, held_out


def _digest(image: np.ndarray) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()


# ---------------------------------------------------------------------------------------- in memory


def raw_of(source: Any, part: str, expected: Expected) -> Raw:
    """One set from whatever holds it; see `load_images`."""
    if isinstance(source, Images):
        return Raw(part, [source.pixels], source.names, source.labels, pictures=True)
    if isinstance(source, str | Path):
        path = _check_exists(Path(source))
        return from_folder(path, expected) if path.is_dir() else from_npz(path, part, False)
    if isinstance(source, Mapping):
        return _from_archive(source, part, False, f"the {part} dictionary")
    if isinstance(source, Tensor | np.ndarray):
        array = as_array(source)
        return Raw(part, [array], [f"{part}[{row}]" for row in range(len(array))])
    if isinstance(source, tuple | list) and source:
        if all(isinstance(item, str | Path) for item in source):
            names = [printable(str(item)) for item in source]
            return _pictures([*map(Path, source)], names, None, Counter(), part, expected)
        if len(source) == 2:
            return _labelled(raw_of(source[0], part, expected), source[1], f"{part} images")
        if isinstance(source, tuple):
            raise ReconError(
                f"the {part} images are a tuple of {len(source)}: give (images, labels)"
            )
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _from_dataset(source, part, expected)
    raise ReconError(
        f"the {part} images must be a tensor, an array, a data set or a path, not"
        f" {type(source).__name__}"
    )


def _labelled(raw: Raw, source: Any, part: str) -> Raw:
    """With labels; part: words for the sentence where their numbers differ."""
    with one_reason("labels must be a class for each image"):
        labels = np.atleast_1d(as_array(source))
    if len(labels) != len(raw.names):
        raise ReconError(f"there are {len(raw.names)} {part} and {len(labels)} labels")
    return replace(raw, labels=labels)


def _from_dataset(source: Sequence[Any], part: str, expected: Expected) -> Raw:
    """Items are images, images with a label, or rows with an image and perhaps a label by name."""
    with one_reason(f"the {part} data set cannot be read"):
        items = [_pair(source[row]) for row in range(len(source))]
        again = [_pair(source[row]) for row in range(min(len(source), TWICE))]
    if not items:
        raise ReconError(f"there are no {part} images in the data set")
    pixels = [_pixels_of(item[0], expected) for item in items]
    same = (_pixels_of(item[0], expected) for item in again)
    if not all(np.array_equal(a, b) for a, b in zip(pixels, same, strict=False)):
        another = f"the {part} data set gives another image each time that it is read"
        raise ReconError(f"{another}: turn its augmentation off, so that an image is an image")
    names, pictures = (
        [f"{part}[{row}]" for row in range(len(items))],
        isinstance(items[0][0], Image.Image),
    )
    raw = Raw(part, pixels, names, pictures=pictures)
    if len(items[0]) == 1:
        return raw
    return _labelled(raw, [as_array(item[1]) for item in items], f"{part} images")


def _pair(item: Any) -> tuple[Any, ...]:
    """(image,) or (image, label) of what a data set gives; rows of Hugging Face by the names of
    their columns.
    """
    if isinstance(item, Mapping):
        image, label = (
            next((item[name] for name in names if name in item), None) for names in COLUMNS
        )
        if image is None:
            raise ReconError(
                f"a row of the data set has no image, only {', '.join(map(str, item))}"
            )
        return (image,) if label is None else (image, label)
    return tuple(item[:2]) if isinstance(item, tuple | list) else (item,)


def _pixels_of(image: Any, expected: Expected) -> np.ndarray:
    """(1, …) of an array; (1, C, H, W) of a picture."""
    if not isinstance(image, Image.Image):
        return as_array(image)[None]
    pixels = _of_picture(image, expected)
    if pixels is None:
        raise ReconError(f"a picture of {'{} × {}'.format(*image.size)} does not fit the network")
    return pixels


def _of_picture(image: Image.Image, expected: Expected) -> np.ndarray | None:
    """(1, C, H, W), grey or in colour, whichever the network takes: uint8, of more bits uint16 or
    float32; None where its size does not fit. The first frame of several; transparency is dropped.
    """
    if expected.resize or expected.crop:
        from torchvision.transforms import functional

        image = functional.resize(image, [expected.resize]) if expected.resize else image
        if min(image.size) < (expected.crop or 0):
            raise ValueError(f"it has fewer than {expected.crop} pixels a side: give --resize")
        image = functional.center_crop(image, [expected.crop]) if expected.crop else image
    width, height = image.size
    deep = image.mode.startswith(DEEP)
    channels = expected.colours(width, height, 1 if deep or image.mode in ("1", "L", "LA") else 3)
    if channels is None:
        return None
    if deep:
        array = np.asarray(image)
        array = array if image.mode == "F" else array.astype(np.uint16)
        if image.mode == "F" and not np.isfinite(array).all():
            raise ValueError("it holds numbers that are not finite")
        return np.repeat(array[None, None], channels, axis=1)
    pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    return pixels.reshape(1, height, width, channels).transpose(0, 3, 1, 2)


# ------------------------------------------------------------------------------------------ on disk


def _part_of(data: Path, part: str, expected: Expected) -> Raw:
    if data.is_file():
        return from_npz(data, part, True)
    if (data / part).is_dir():
        return from_folder(data / part, expected)
    if (data / f"{part}.npz").is_file():
        return from_npz(data / f"{part}.npz", part, False)
    if part == "train":
        raise ReconError(
            f"{data} has neither a folder train/ nor train.npz with the training images"
        )
    raise ReconError(f"{data} has no held-out images (held_out/ or held_out.npz): {WITHOUT}")


def from_folder(folder: Path, expected: Expected) -> Raw:
    """Image files at any depth, also behind links; what is left out is counted.

    The name of the subfolder is the label where there are at least two with images; then a few
    images beside the subfolders are left out. An image that cannot be read is an error: a training
    image that is silently missing would be one that nobody looked for.
    """
    files, left = _list_files(folder)
    classes = {file.relative_to(folder).parts[0] for file in files if file.parent != folder}
    loose = sum(file.parent == folder for file in files)
    if len(classes) > 1 and 0 < 2 * loose < len(files):
        files = [file for file in files if file.parent != folder]
        left["in no class folder"] = loose
    if not files:
        kinds, note = (
            ", ".join(sorted(suffix[1:] for suffix in SUFFIXES)),
            Raw("it", [], [], None, left).note,
        )
        raise ReconError(f"there are no images ({kinds}) in {folder}{note and f': {note}'}")
    inside = [file.relative_to(folder).parts for file in files]
    names = ["/".join(map(printable, filter(None, (folder.name, *parts)))) for parts in inside]
    labels: list[str] | None = [printable(parts[0]) for parts in inside]
    if len(classes) < 2 or {len(parts) > 1 for parts in inside} != {True}:
        labels = None
    return _pictures(files, names, labels, left, folder.name, expected)


def _pictures(
    files: list[Path],
    names: list[str],
    labels: list[str] | None,
    left: Counter[str],
    part: str,
    expected: Expected,
) -> Raw:
    """Files of images, but for those whose size does not fit the network."""
    blocks: list[Any] = []
    for file in files:
        with one_reason(f"the image {file} cannot be read"), Image.open(file) as image:
            blocks.append(_of_picture(image, expected))
            size = image.size
    fits = [row for row, block in enumerate(blocks) if block is not None]
    if not fits:
        raise ReconError(
            f"{files[-1]} is {size[0]} × {size[1]}, which does not make {expected.dim} inputs, grey"
            " or in colour"
        )
    known = None if labels is None else np.array(labels)
    return Raw(printable(part), blocks, names, known, left, True).among(fits)


def _list_files(folder: Path) -> tuple[list[Path], Counter[str]]:
    """Image files, sorted, and how many others there are by what they are."""
    files, left, visited = [], Counter[str](), {folder.resolve()}
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.name.startswith("."):
                left["hidden, by a dot before its name"] += 1
            elif path.is_dir():
                if path.resolve() not in visited:  # links may go round in circles
                    visited.add(path.resolve())
                    waiting.append(path)
            elif not path.is_file():
                left["no ordinary file"] += 1
            elif path.suffix.lower() not in SUFFIXES:
                left["no image by its name"] += 1
            else:
                files.append(path)
    return sorted(files), left


def from_npz(file: Path, part: str, whole: bool) -> Raw:
    """The arrays of this part; whole: whether the file holds both parts."""
    if not file.is_file():  # a pipe would be waited for without end
        raise ReconError(f"{file} is neither a folder nor a file")
    with (
        one_reason(f"{file} cannot be read as an .npz of plain arrays"),
        np.load(file, allow_pickle=False) as arrays,
    ):
        return _from_archive(arrays, part, whole, str(file))


def _from_archive(arrays: Mapping[str, Any], part: str, whole: bool, where: str) -> Raw:
    """The array of this part, or the only one that holds no labels; labels from the array that says
    so.

    Names are read by their words: `train`, `x_train`, `train_images`, with `train_labels`,
    `y_train` or `labels`; held out is `held_out`, else `test`, else `val`.
    """
    parsed = {name: _parse_name(str(name)) for name in arrays}
    images = [name for name in parsed if not parsed[name][1] and np.ndim(arrays[name]) > 1]
    which = next((which for which in PARTS[part] if which in [parsed[n][0] for n in images]), None)
    if whole and which is None:
        raise ReconError(f"{where} has no array {part}{'' if part == 'train' else f': {WITHOUT}'}")
    chosen = [name for name in images if parsed[name][0] == which] if which else images
    if len(chosen) != 1:
        raise ReconError(
            f"{where} must hold one array of {part} images, not {len(chosen)}"
            f" ({', '.join(map(str, chosen))})"
        )
    array = as_array(arrays[chosen[0]])
    raw = Raw(part, [array], [f"{part}[{row}]" for row in range(len(array))])
    # those that name the part come first
    kinds = [parsed[chosen[0]][0], None] if len(images) == 1 else [parsed[chosen[0]][0]]
    for kind in kinds:
        held = [name for name, (of, labels) in parsed.items() if labels and of == kind]
        if len(held) > 1:
            raise ReconError(f"{where} holds several labels: {', '.join(map(str, held))}")
        if held:
            return _labelled(raw, arrays[held[0]], f"{part} images of {where}")
    return raw


def _parse_name(name: str) -> tuple[str | None, bool]:
    """(which part an array of this name is of, whether it holds labels).

    >>> _parse_name("x_train"), _parse_name("test_labels"), _parse_name("Ytrain"), _parse_name("held_out"), _parse_name("arr_0")
    (('train', False), ('test', True), ('train', True), ('held', False), (None, False))
    """  # noqa: E501
    words = set(
        re.findall(
            r"train|test|held|val|eval|labels?|targets?|class(?:es)?|[xy](?![a-z])|[xy]$",
            name.lower(),
        )
    )
    words |= {"y"} if re.match(r"y_?(tr|te|va)", name.lower()) else set()
    part = next((word for word in ("train", "test", "held", "val") if word in words), None)
    return part, bool(words & {"label", "labels", "target", "targets", "class", "classes", "y"})
