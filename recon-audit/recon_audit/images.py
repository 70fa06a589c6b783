"""A set of images and their labels as an audit holds them, and how arrays of any layout become
one.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError, one_reason
from recon.images.pool import shape_of

SIDE = 8  # of the smallest image that is given as a row
# correlation of neighbours: that much above all pairs': digits .3, photographs .5, columns of a
# table 0
ALIKE = 0.15
MOST_ROWS = 500


@dataclass(frozen=True)
class Images:
    """
    Attributes:
        pixels: (n, C, H, W), uint8 or float32.
        names: what the owner calls them, (n,).
        labels: (n,) classes as their owner names them, None where unknown.
        note: "used N of M files, because …", "" where all were used.
    """

    pixels: np.ndarray
    names: list[str]
    labels: list[str] | None = None
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
        labels = None if self.labels is None else [self.labels[row] for row in rows]
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


# ------------------------------------------------------------------------------------------- labels


def labels_in(source: Any) -> list[str]:
    """(n,), (n, 1) or one-hot (n, K) numbers, or n names, as texts; ReconError for anything else.

    >>> labels_in([[0, 1], [1, 0]]), labels_in([[3], [4]]), labels_in(["cat", "dog"]), labels_in([1.0, 2.0])
    (['1', '0'], ['3', '4'], ['cat', 'dog'], ['1', '2'])
    """  # noqa: E501
    with one_reason("labels must be a class for each image"):
        array = as_array(source)
    if (
        array.dtype == object
        and array.ndim == 1
        and all(isinstance(item, str | int) for item in array)
    ):
        array = array.astype(str)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    numbers = array.ndim == 2 and array.dtype.kind in "biuf"
    if numbers and (np.sort(array, 1)[:, :-1] == 0).all() and (array.max(1) == 1).all():
        array = array.argmax(1)
    if array.ndim != 1 or array.dtype.kind not in "biufUST":
        wanted = "a class for each image, as numbers, names or one-hot rows"
        raise ReconError(f"labels must be {wanted}, not {array.dtype} {array.shape}")
    if array.dtype.kind == "f" and not (array == np.round(array)).all():
        raise ReconError(
            f"labels like {array[array != np.round(array)][0]:.4g} are no classes: an audit needs"
            " classes"
        )
    return [_text(label) for label in array.tolist()]


def _text(label: Any) -> str:
    """As a table would have it: of 3.0 "3", of bytes their letters."""
    text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
    return re.sub(r"(?<=[0-9])\.0+$", "", text.strip())


def classes_of(
    train: Images, held_out: Images, source: Any, outputs: int
) -> tuple[Tensor, Tensor, str] | None:
    """Classes (n,) in 0 … K − 1 of both sets and where they are from, in words; None where nobody
    knows them.

    Labels that are numbers below K count as they are; others are numbered in their order, of
    numbers or of text. ReconError for labels that do not fit.

    Args:
        source: a pair of label sequences, the path of a CSV file with lines `name,label`,
            "predicted" (None is returned), or None for those that came with the images, as far as
            they fit.
    """
    classes = max(outputs, 2)
    if isinstance(source, str) and source == "predicted":
        return None
    if isinstance(source, str | Path):
        table = _table(Path(source))
        parts = [_look_up(part, table, source) for part in (train, held_out)]
        origin = f"labels of {printable(Path(source))}"
    elif source is not None:
        parts = [labels_in(part) for part in source]
        origin = "labels as given"
    elif train.labels is not None and held_out.labels is not None:
        parts, origin = [train.labels, held_out.labels], "labels that came with the images"
    else:
        return None
    if [len(part) for part in parts] != [len(train), len(held_out)]:
        counts = " and ".join(str(len(part)) for part in parts)
        raise ReconError(f"there are {len(train)} and {len(held_out)} images, and {counts} labels")
    labels = set(parts[0]) | set(parts[1])
    decimal = all(re.fullmatch(r"[-+]?[0-9]{1,9}", name) for name in labels)
    # 10 comes after 9, and not after 1
    names = sorted(labels, key=int) if decimal else sorted(labels)
    if decimal and int(names[0]) >= 0 and int(names[-1]) < classes:
        number = {name: int(name) for name in names}
    elif len(names) <= classes:
        number = {name: row for row, name in enumerate(names)}
        origin += (
            f", numbered in their order ({names[0]} is output 0, {names[-1]} is output"
            f" {len(names) - 1})"
        )
    elif source is None and not decimal:  # subfolders may be anything
        return None
    else:
        held = f"{len(names)} labels ({', '.join(names[:4])}, …)"
        raise ReconError(f"the images have {held}, and the network {classes} classes")
    y, y_held_out = (torch.tensor([number[label] for label in part]) for part in parts)
    return y, y_held_out, origin


def _table(path: Path) -> dict[str, str]:
    """Name -> label, as spreadsheets write them: UTF-8 or UTF-16, perhaps with a mark of byte
    order, fields divided by comma, semicolon or tab.
    """
    if not path.is_file():  # a pipe would be waited for without end
        raise ReconError(f"the labels {path} cannot be read: there is no such file")
    with one_reason(f"the labels {path} cannot be read"):
        data = path.read_bytes()
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        lines = csv.reader(text.splitlines(), delimiter=max(",;\t", key=text.count))
        # a column of row numbers may stand before them
        rows = [row[-2:] for row in lines if any(map(str.strip, row))]
    if not rows or any(len(row) != 2 for row in rows):
        raise ReconError(
            f"the labels {path} must be lines of two fields, the name of an image and its label"
        )
    return {
        name.strip().replace("\\", "/").removeprefix("./"): _text(label) for name, label in rows
    }


def _look_up(images: Images, table: dict[str, str], path: Any) -> list[str]:
    """By the whole name, or by its last part, with or without suffix, where it is told apart by
    that.
    """
    shorter = {}
    for name in images.names:
        last = name.rpartition("/")[2]
        shorter[name] = (last, last.rpartition(".")[0])
    counts = Counter(short for pair in shorter.values() for short in pair)
    labels = []
    for name, pair in shorter.items():
        known = [name, *(short for short in pair if counts[short] == 1)]
        label = next((table[way] for way in known if way in table), None)
        if label is None:
            raise ReconError(f"the labels {path} have no line for {name}")
        labels.append(label)
    return labels
