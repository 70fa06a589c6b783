"""A set of images as an audit holds it, and how arrays of any layout become one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError
from recon.images.pool import shape_of


@dataclass(frozen=True)
class Images:
    """pixels: (n, C, H, W), uint8 or float32 · names: what the owner calls them, (n,) · labels: (n,) classes as their
    owner names them, None where unknown · note: "used N of M files, because …", "" where all were used."""

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

    @property
    def flat(self) -> Tensor:
        """(n, d) float32, in C H W order."""
        return self.scaled.flatten(1)

    def take(self, rows: list[int]) -> Images:
        """Some of them."""
        labels = None if self.labels is None else [self.labels[row] for row in rows]
        return Images(self.pixels[rows], [self.names[row] for row in rows], labels, self.note)

    def picture(self, row: int) -> np.ndarray:
        """(H, W, C) uint8, to look at; floats outside [0, 1] are stretched to the range of all images."""
        pixels = self.pixels[row]
        if pixels.dtype != np.uint8:
            low, high = min(0.0, float(self.pixels.min())), max(1.0, float(self.pixels.max()))
            pixels = np.round((pixels - low) / (high - low) * 255).astype(np.uint8)
        return pixels.transpose(1, 2, 0)


@dataclass(frozen=True)
class Expected:
    """What the network tells of its images: dim, the number of inputs, or channels, or neither."""

    dim: int | None = None
    channels: int | None = None

    def colours(self, width: int, height: int, own: int) -> int | None:
        """1 or 3 for an image of this size with `own` colours; None where it does not fit."""
        if self.dim is not None:
            channels, rest = divmod(self.dim, width * height)
            return channels if not rest and channels in (1, 3) else None
        return self.channels if self.channels in (1, 3) else own


def from_array(array: Any, part: str, expected: Expected, name: str | None = None) -> Images:
    """Of an array or tensor; channels last are put first.  Floats stay as they are, also where they are normalised."""
    array = array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)
    said = f"{name}: {part}" if name else f"the {part} images"
    if array.dtype.kind in "iu" and array.dtype != np.uint16 and array.size and 0 <= array.min() <= array.max() <= 255:
        array = array.astype(np.uint8)
    if array.dtype == np.uint16:
        array = array.astype(np.float32) / 65535
    elif array.dtype.kind in "biu" or array.dtype in (np.float64, np.float16):  # of scanners, in units of their own
        array = array.astype(np.float32)
    if array.dtype not in (np.uint8, np.float32) or array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ReconError(f"{said} must be uint8 or float of shape (N, H, W, C), not {array.dtype} {array.shape}")
    if array.dtype == np.float32 and not np.isfinite(array).all():
        raise ReconError(f"{said} hold numbers that are not finite")
    if array.dtype == np.float32 and 1 < array.max() <= 255 and array.min() >= 0 and (array == np.round(array)).all():
        array = array.astype(np.uint8)  # bytes, kept as floats
    if array.ndim == 2:
        array = array.reshape(len(array), *_shape_of_rows(array.shape[1], expected))
    elif array.ndim == 3:
        array = array[:, None]
    elif (
        array.shape[3] in (1, 3, 4)
        and (array.shape[1] not in (1, 3) or array.shape[2] == array.shape[1])
        or array.shape[3] in (1, 3)
        and expected.channels != array.shape[1]
    ):
        array = array.transpose(0, 3, 1, 2)
    if expected.dim not in (None, array[0].size) or expected.channels not in (None, array.shape[1]):
        wanted = f"{expected.dim} inputs" if expected.dim else f"{expected.channels} colours"
        raise ReconError(f"{said} of shape {array.shape[1:]} do not make {wanted}, grey or in colour")
    return Images(np.ascontiguousarray(array), [f"{part}[{row}]" for row in range(len(array))])


def _shape_of_rows(dim: int, expected: Expected) -> tuple[int, ...]:
    try:
        return shape_of(dim)
    except ReconError:
        return (1, 1, dim)


def printable(path: Path | str) -> str:
    """The last part of a path for a reader: bytes that are no UTF-8, control characters and marks that turn the
    direction of writing are escaped.

    >>> printable("a\u202egnp.exe")
    'a\\\\u202egnp.exe'
    """
    text = str(path.name if isinstance(path, Path) else path)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
