"""Images that an audit compares with, from wherever their owner keeps them: memory, folders, files
of NumPy; arrays of any layout become one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    """

    pixels: np.ndarray
    names: list[str]
    labels: np.ndarray | None = None
    note: str = ""

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

    def take(self, rows: list[int]) -> Images:
        """Some of them."""
        labels = None if self.labels is None else self.labels[rows]
        return Images(self.pixels[rows], [self.names[row] for row in rows], labels, self.note)

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
    """What the network tells of its images: dim, the number of inputs, or channels, or neither."""

    dim: int | None = None
    channels: int | None = None

    def colours(self, width: int, height: int, default: int) -> int | None:
        """1 or 3 for an image of this size with `default` colours; None where it does not fit."""
        if self.dim is not None:
            channels, remainder = divmod(self.dim, width * height)
            return channels if not remainder and channels in (1, 3) else None
        return self.channels if self.channels in (1, 3) else default


def as_array(source: Any) -> np.ndarray:
    """Of an array, or a tensor wherever it lies and of whatever type."""
    if isinstance(source, Tensor):
        source = source.detach().cpu()
        source = source.float() if source.dtype == torch.bfloat16 else source
    return np.asarray(source)


def from_array(array: Any, part: str, expected: Expected, name: str | None = None) -> Images:
    """Of an array or tensor; channels last are put first. Floats stay as they are, also where they
    are normalised.

    Rows of numbers are images where pixels that would be neighbours are alike (`_shape_of_rows`);
    else they stay rows, (n, 1, 1, d), in their own units.
    """
    array = as_array(array)
    what = f"{name}: {part}" if name else f"the {part} images"
    if array.dtype.kind not in "biuf" or array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ReconError(
            f"{what} must be uint8 or float of shape (N, H, W, C), not {array.dtype} {array.shape}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ReconError(f"{what} hold numbers that are not finite")
    shape = _shape_of_rows(array, expected) if array.ndim == 2 else ()
    array = array.astype(np.float32) if shape[:2] == (1, 1) else _pixels(array)
    if shape:
        array = array.reshape(len(array), *shape)
    elif array.ndim == 3:
        array = array[:, None]
    elif _channels_last(array.shape[1:], expected.channels):
        array = array.transpose(0, 3, 1, 2)
    if expected.dim not in (None, array[0].size) or expected.channels not in (None, array.shape[1]):
        wanted = f"{expected.dim} inputs" if expected.dim else f"{expected.channels} colours"
        raise ReconError(
            f"{what} of shape {array.shape[1:]} do not make {wanted}, grey or in colour"
        )
    return Images(np.ascontiguousarray(array), [f"{part}[{row}]" for row in range(len(array))])


def _pixels(array: np.ndarray) -> np.ndarray:
    """uint8 or float32: whole numbers from 0 to 255 are bytes, also where they are kept as
    something else; 16 bits go from 0 to 1; other whole numbers, of scanners, stay in units of their
    own.
    """
    low, high = array.min(), array.max()
    if array.dtype.kind == "u" and array.dtype.itemsize == 2 and high > 255:
        return array.astype(np.float32) / 65535
    whole = array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and high > 1 and not (array % 1).any()
    )
    return array.astype(np.uint8 if whole and low >= 0 and high <= 255 else np.float32)


def _channels_last(shape: tuple[int, ...], channels: int | None) -> bool:
    """Whether images of this shape are (H, W, C) and not (C, H, W)."""
    first, last = shape[0], shape[2]
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
            C), uint8 or float; a pair of images and labels; a data set of PyTorch; the path of a
            folder of images (its subfolders are classes) or of an .npz.
    """
    expected = expected or Expected()
    if held_out is not None:
        return check_pair(
            images_of(train, "train", expected), images_of(held_out, "held_out", expected)
        )
    if not isinstance(train, str | Path):
        raise ReconError(f"there are no held-out images: {WITHOUT}")
    return check_pair(*(_part_of(_check_exists(Path(train)), part, expected) for part in PARTS))


def _check_exists(path: Path) -> Path:
    if not path.exists():
        raise ReconError(f"there is no data at {path}")
    return path


def check_pair(train: Images, held_out: Images) -> tuple[Images, Images]:
    """Both, of one shape and type, enough of them, and none in both."""
    # one seems to be images, and the other is rows
    rows = (1, 1) in (train.shape[:2], held_out.shape[:2])
    if rows and math.prod(train.shape) == math.prod(held_out.shape):
        held_out = replace(held_out, pixels=held_out.pixels.reshape(-1, *train.shape))
    if train.shape != held_out.shape:
        shapes = f"{train.shape} and {held_out.shape}"
        raise ReconError(f"training and held-out images differ in shape (C, H, W): {shapes}")
    if train.pixels.dtype != held_out.pixels.dtype:
        train, held_out = (replace(part, pixels=part.scaled.numpy()) for part in (train, held_out))
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


def images_of(source: Any, part: str, expected: Expected) -> Images:
    """One set of images from whatever holds them; see `load_images`."""
    if isinstance(source, Images):
        return source
    if isinstance(source, str | Path):
        path = _check_exists(Path(source))
        return (
            from_folder(path, expected) if path.is_dir() else from_npz(path, part, False, expected)
        )
    if (
        isinstance(source, tuple | list)
        and len(source) == 2
        and not isinstance(source[1], str | Path)
    ):
        return _labelled(images_of(source[0], part, expected), source[1], f"{part} images")
    if isinstance(source, Tensor | np.ndarray):
        return from_array(source, part, expected)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _from_dataset(source, part, expected)
    raise ReconError(
        f"the {part} images must be a tensor, an array, a data set or a path, not"
        f" {type(source).__name__}"
    )


def _labelled(images: Images, source: Any, part: str) -> Images:
    """With labels; part: words for the sentence where their numbers differ."""
    with one_reason("labels must be a class for each image"):
        labels = np.atleast_1d(as_array(source))
    if len(labels) != len(images):
        raise ReconError(f"there are {len(images)} {part} and {len(labels)} labels")
    return replace(images, labels=labels)


def _from_dataset(source: Sequence[Any], part: str, expected: Expected) -> Images:
    """Items are images, images with a label, or rows with an image and perhaps a label by name."""
    with one_reason(f"the {part} data set cannot be read"):
        items = [_pair(source[row]) for row in range(len(source))]
        again = [_pair(source[row]) for row in range(min(len(source), TWICE))]
    if not items:
        raise ReconError(f"there are no {part} images in the data set")
    pixels = [_pixels_of(item[0]) for item in items]
    if not all(np.array_equal(a, _pixels_of(b[0])) for a, b in zip(pixels, again, strict=False)):
        another = f"the {part} data set gives another image each time that it is read"
        raise ReconError(f"{another}: turn its augmentation off, so that an image is an image")
    if len({(value.shape, value.dtype) for value in pixels}) > 1:
        raise ReconError(f"the {part} images of the data set differ in shape or type")
    images = from_array(np.stack(pixels), part, expected)
    if len(items[0]) == 1:
        return images
    return _labelled(images, [as_array(item[1]) for item in items], f"{part} images")


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


def _pixels_of(image: Any) -> np.ndarray:
    """An array; of a picture with a palette its colours, and not their numbers."""
    if isinstance(image, Image.Image) and not image.mode.startswith(DEEP):
        image = image.convert("L" if image.mode in ("1", "L", "LA") else "RGB")
    return as_array(image)


# ------------------------------------------------------------------------------------------ on disk


def _part_of(data: Path, part: str, expected: Expected) -> Images:
    if data.is_file():
        return from_npz(data, part, True, expected)
    if (data / part).is_dir():
        return from_folder(data / part, expected)
    if (data / f"{part}.npz").is_file():
        return from_npz(data / f"{part}.npz", part, False, expected)
    if part == "train":
        raise ReconError(
            f"{data} has neither a folder train/ nor train.npz with the training images"
        )
    raise ReconError(f"{data} has no held-out images (held_out/ or held_out.npz): {WITHOUT}")


def from_folder(folder: Path, expected: Expected) -> Images:
    """Image files at any depth, also behind links; `note` says how many files were left out and
    why.

    The name of the subfolder is the label where there are at least two with images. An image that
    cannot be read is an error: a training image that is silently missing would be one that nobody
    looked for.
    """
    files, left = _list_files(folder)
    if not files:
        reasons = f": {_reasons(left)}" if left else ""
        kinds = ", ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        raise ReconError(f"there are no images ({kinds}) in {folder}{reasons}")
    read = [(file, _read_image(file, expected)) for file in files]
    fitting = [(file, pixels) for file, pixels in read if pixels is not None]
    if not fitting:
        with Image.open(files[0]) as image:
            size = "{} × {}".format(*image.size)
        raise ReconError(
            f"{files[0]} is {size}, which does not make {expected.dim} inputs, grey or in colour"
        )
    shape, _ = Counter(pixels.shape for _, pixels in fitting).most_common(1)[0]
    usable = [(file, pixels) for file, pixels in fitting if pixels.shape == shape]
    left["of another size"] += len(files) - len(usable)
    arrays = [pixels for _, pixels in usable]
    if len({array.dtype for array in arrays}) > 1:
        arrays = [array / np.float32(255) if array.dtype == np.uint8 else array for array in arrays]
    inside = [file.relative_to(folder).parts for file, _ in usable]
    names = ["/".join(map(printable, filter(None, (folder.name, *parts)))) for parts in inside]
    classes = (
        [printable(parts[0]) for parts in inside] if all(len(parts) > 1 for parts in inside) else []
    )
    total = len(usable) + left.total()
    note = f"used {len(usable)} of {total} files in {printable(folder)}, because {_reasons(left)}"
    return Images(
        np.stack(arrays),
        names,
        np.array(classes) if len(set(classes)) > 1 else None,
        note if left.total() else "",
    )


def _list_files(folder: Path) -> tuple[list[Path], Counter[str]]:
    """Image files, sorted, and how many others there are by what they are."""
    files, left, visited = [], Counter[str](), {folder.resolve()}
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir():
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


def _reasons(left: Counter[str]) -> str:
    return ", ".join(
        f"{n} {'is' if n == 1 else 'are'} {why}" for why, n in sorted(left.items()) if n
    )


def _read_image(file: Path, expected: Expected) -> np.ndarray | None:
    """(C, H, W), uint8 or, of more than 8 bits, float32 in [0, 1]; grey or in colour, whichever the
    network takes; None where its size does not fit. The first frame of several; transparency is
    dropped.
    """
    with one_reason(f"the image {file} cannot be read"), Image.open(file) as image:
        width, height = image.size
        channels = expected.colours(
            width, height, 1 if image.mode in ("1", "L", "LA", *DEEP) else 3
        )
        if channels is None:
            return None
        if image.mode.startswith(DEEP):
            deep = np.asarray(image, dtype=np.float32)
            top = 1.0 if image.mode.startswith("F") and deep.max() <= 1 else 65535.0
            return np.repeat((deep / np.float32(top))[None], channels, axis=0)
        pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


def from_npz(file: Path, part: str, whole: bool, expected: Expected) -> Images:
    """The array of this part, or the only one that holds no labels; labels from the array that says
    so.

    Names are read by their words: `train`, `x_train`, `train_images`, with `train_labels`,
    `y_train` or `labels`; held out is `held_out`, else `test`, else `val`.

    Args:
        whole: whether the file holds both parts.
    """
    if not file.is_file():  # a pipe would be waited for without end
        raise ReconError(f"{file} is neither a folder nor a file")
    with (
        one_reason(f"{file} cannot be read as an .npz of plain arrays"),
        np.load(file, allow_pickle=False) as arrays,
    ):
        parsed = {name: _parse_name(name) for name in arrays.files}
        images = [name for name, (_, labels) in parsed.items() if not labels]
        matching = [name for which in PARTS[part] for name in images if parsed[name][0] == which]
        if whole and not matching:
            raise ReconError(
                f"{file} has no array {part}{'' if part == 'train' else f': {WITHOUT}'}"
            )
        if not matching and len(images) != 1:
            raise ReconError(f"{file} must hold one array, not {len(images)}")
        chosen = (matching or images)[0]
        which = parsed[chosen][0]
        held = [name for name, (of, labels) in parsed.items() if labels and of in (which, None)]
        held.sort(key=lambda name: parsed[name][0] is None)  # those that name the part come first
        array = arrays[chosen]
        fits = (arrays[name] for name in held if parsed[name][0] is not None or len(images) == 1)
        labels = next(fits, None)
    result = from_array(array, part, expected, str(file))
    return result if labels is None else _labelled(result, labels, f"{part} images of {file}")


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
