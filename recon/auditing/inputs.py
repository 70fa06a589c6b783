"""Images that an audit compares with, from wherever their owner keeps them, and what training did to their pixels."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from recon.auditing.networks import printable
from recon.errors import ReconError
from recon.images.pool import shape_of

MIN_IMAGES = 6  # with 5 of each even a perfect attack has p = 9/252 in `recon.auditing.scoring.score`
MAX_TABLE = 100_000_000  # bytes of a file of labels
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
DEEP = ("I", "F")  # Pillow's modes of more than 8 bits a channel
NOT_AN_NPZ = (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error)  # an .npy has no files
MEANS = ("image", "channel", "none")


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


def load_images(train: Any, held_out: Any = None, expected: Expected | None = None) -> tuple[Images, Images]:
    """(training images, held-out images).

    train, held_out: `Images`, tensors or arrays (n, d), (n, H, W), (n, C, H, W) or (n, H, W, C), uint8 or float; a
    pair of images and labels; a data set of PyTorch; the path of a folder of images (its subfolders are classes) or of
    an .npz.  Without held_out, `train` is a folder with `train/` and `held_out/` or `train.npz` and `held_out.npz`, or
    one .npz with both arrays.  ReconError for whatever is missing, unreadable, of another size, too few, or in both.
    """
    expected = expected or Expected()
    if held_out is None:
        if not isinstance(train, str | Path):
            raise ReconError(
                "there are no held-out images: without images that the network never saw, likeness by chance cannot be "
                "told from leakage"
            )
        if not Path(train).exists():
            raise ReconError(f"there is no data at {train}")
        parts = [_part(Path(train), part, expected) for part in ("train", "held_out")]
    else:
        parts = [images_of(train, "train", expected), images_of(held_out, "held_out", expected)]
    return checked(*parts)


def checked(train: Images, held_out: Images) -> tuple[Images, Images]:
    """Both, of one shape and type, enough of them, and none in both."""
    if train.shape != held_out.shape:
        shapes = " and ".join(str(p.shape) for p in (train, held_out))
        raise ReconError(f"training and held-out images differ in shape (C, H, W): {shapes}")
    if train.pixels.dtype != held_out.pixels.dtype:
        train, held_out = (replace(part, pixels=part.scaled.numpy()) for part in (train, held_out))
    for name, part in (("training", train), ("held-out", held_out)):
        if len(part) < MIN_IMAGES:
            said = f" ({part.note})" if part.note else ""
            raise ReconError(
                f"there are only {len(part)} {name} images, and with fewer than {MIN_IMAGES} nothing is "
                f"significant{said}"
            )
    known = {image.tobytes(): name for image, name in zip(train.pixels, train.names, strict=True)}
    both = [row for row, image in enumerate(held_out.pixels) if image.tobytes() in known]
    if len(held_out) - len(both) < MIN_IMAGES:
        first = both[0]
        raise ReconError(
            f"{held_out.names[first]} is the training image {known[held_out.pixels[first].tobytes()]}: held-out images "
            "must be ones that the network never saw"
        )
    if both:
        said = f"{len(both)} held-out images are training images (the first: {held_out.names[both[0]]}) and left out"
        left = held_out.take([row for row in range(len(held_out)) if row not in set(both)])
        held_out = replace(left, note="; ".join(filter(None, (held_out.note, said))))
    return train, held_out


def images_of(source: Any, part: str, expected: Expected) -> Images:
    """One set of images from whatever holds them; see `load_images`."""
    if isinstance(source, Images):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise ReconError(f"there is no data at {path}")
        return from_folder(path, expected) if path.is_dir() else _from_npz(path, part, None, expected)
    if isinstance(source, tuple | list) and len(source) == 2 and np.ndim(source[1]) in (1, 2):
        labels = labels_in(source[1])
        found = images_of(source[0], part, expected)
        if len(labels) != len(found):
            raise ReconError(f"there are {len(found)} {part} images and {len(labels)} labels")
        return replace(found, labels=labels)
    if isinstance(source, Tensor | np.ndarray):
        return from_array(source, part, expected)
    if hasattr(source, "batch_sampler") and hasattr(source, "dataset"):  # a DataLoader: what it loads from
        source = source.dataset
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _from_dataset(source, part, expected)
    raise ReconError(f"the {part} images must be a tensor, an array, a data set or a path, not {type(source).__name__}")


def labels_in(given: Any) -> list[str]:
    """(n,), (n, 1) or one-hot (n, K) numbers, or n names, as texts; ReconError for anything else.

    >>> labels_in([[0, 1], [1, 0]]), labels_in([[3], [4]]), labels_in(["cat", "dog"]), labels_in([1.0, 2.0])
    (['1', '0'], ['3', '4'], ['cat', 'dog'], ['1', '2'])
    """
    array = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if (
        array.ndim == 2
        and array.dtype.kind in "biuf"
        and (np.sort(array, 1)[:, :-1] == 0).all()
        and (array.max(1) == 1).all()
    ):
        array = array.argmax(1)
    if array.ndim != 1 or array.dtype.kind not in "biufUSO":
        raise ReconError(
            f"labels must be a class for each image, as numbers, names or one-hot rows, not {array.dtype} {array.shape}"
        )
    return [str(label).removesuffix(".0") for label in array.tolist()]


# ---------------------------------------------------------------------------------------------------------- arrays


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


def _from_dataset(source: Sequence[Any], part: str, expected: Expected) -> Images:
    """Items are images, images with a label, or rows with an image and perhaps a label by name."""
    try:
        items = [_pair(source[row]) for row in range(len(source))]
        again = _pair(source[0]) if items else ()
    except (IndexError, KeyError, TypeError, OSError, ValueError, RuntimeError) as error:
        raise ReconError(f"the {part} data set cannot be read: {' '.join(str(error).split())[:150]}") from error
    if not items:
        raise ReconError(f"there are no {part} images in the data set")
    labelled = len(items[0]) > 1
    pixels = [_pixels_of(item[0]) for item in items]
    if not np.array_equal(pixels[0], _pixels_of(again[0])):
        raise ReconError(
            f"the {part} data set gives another image each time that its first one is read: turn its augmentation off, "
            "so that an image is an image"
        )
    if len({(each.shape, each.dtype) for each in pixels}) > 1:
        raise ReconError(f"the {part} images of the data set differ in shape or type")
    found = from_array(np.stack(pixels), part, expected)
    return replace(found, labels=labels_in([_plain(item[1]) for item in items])) if labelled else found


def _pair(item: Any) -> tuple[Any, ...]:
    """(image,) or (image, label) of what a data set gives; rows of Hugging Face by the names of their columns."""
    if isinstance(item, Mapping):
        image = next((item[name] for name in ("image", "img", "pixel_values", "pixels") if name in item), None)
        label = next((item[name] for name in ("label", "labels", "fine_label", "target") if name in item), None)
        if image is None:
            raise ReconError(f"a row of the data set has no image, only {', '.join(map(str, item))}")
        return (image,) if label is None else (image, label)
    return tuple(item[:2]) if isinstance(item, tuple | list) else (item,)


def _pixels_of(image: Any) -> np.ndarray:
    """An array; of a picture with a palette its colours, and not their numbers."""
    if isinstance(image, Image.Image):
        image = image.convert("RGB") if image.mode in ("P", "PA", "RGBA", "CMYK", "YCbCr", "HSV", "LAB") else image
        image = image.convert("L") if image.mode in ("1", "LA") else image
    return np.asarray(image.detach().cpu() if isinstance(image, Tensor) else image)


def _plain(label: Any) -> Any:
    """A label as Python has it: of tensors their numbers."""
    return label.tolist() if isinstance(label, Tensor | np.ndarray | np.generic) else label


# ----------------------------------------------------------------------------------------------------------- files


def _part(data: Path, part: str, expected: Expected) -> Images:
    if data.is_file():
        return _from_npz(data, part, part, expected)
    if (data / part).is_dir():
        return from_folder(data / part, expected)
    if (data / f"{part}.npz").is_file():
        return _from_npz(data / f"{part}.npz", part, None, expected)
    both = sorted(data.glob("*.npz"))
    if len(both) == 1 and both[0].stem not in ("train", "held_out"):
        return _from_npz(both[0], part, part, expected)
    raise _missing(data, part)


def _missing(data: Path, part: str) -> ReconError:
    if part == "train":
        return ReconError(f"{data} has neither a folder train/ nor train.npz with the training images")
    return ReconError(
        f"{data} has no held-out images (held_out/, held_out.npz or an array held_out): without images that the "
        "network never saw, likeness by chance cannot be told from leakage"
    )


def from_folder(folder: Path, expected: Expected) -> Images:
    """Image files at any depth, also behind links; `note` says how many files were left out and why.

    The name of the subfolder is the label where there are at least two with images.  An image that cannot be read is
    an error: a training image that is silently missing would be one that nobody looked for.
    """
    files, left = _listed(folder)
    if not files:
        raise ReconError(f"there are no images ({', '.join(sorted(s[1:] for s in SUFFIXES))}) in {folder}{_said(left)}")
    read = [(file, _read_image(file, expected)) for file in files]
    fitting = [(file, pixels) for file, pixels in read if pixels is not None]
    if not fitting:
        with Image.open(files[0]) as image:
            width, height = image.size
        raise ReconError(
            f"{files[0]} is {width} × {height}, which does not make {expected.dim} inputs, grey or in colour"
        )
    size, _ = Counter(pixels.shape for _, pixels in fitting).most_common(1)[0]
    kept = [(file, pixels) for file, pixels in fitting if pixels.shape == size]
    left["of another size"] += len(files) - len(kept)
    arrays = [pixels for _, pixels in kept]
    if len({each.dtype for each in arrays}) > 1:
        arrays = [each / np.float32(255) if each.dtype == np.uint8 else each for each in arrays]
    names = ["/".join(map(printable, file.relative_to(folder.parent).parts)) for file, _ in kept]
    classes = [printable(file.relative_to(folder).parts[0]) for file, _ in kept]
    deep = all(len(file.relative_to(folder).parts) > 1 for file, _ in kept)
    total = len(kept) + sum(left.values())
    note = (
        f"used {len(kept)} of {total} files in {printable(folder)}, because {_reasons(left)}"
        if total > len(kept)
        else ""
    )
    return Images(np.stack(arrays), names, classes if deep and len(set(classes)) > 1 else None, note)


def _listed(folder: Path) -> tuple[list[Path], Counter[str]]:
    """Image files, sorted, and how many others there are by what they are."""
    files, left, seen = [], Counter[str](), {folder.resolve()}
    waiting = [folder]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir():
                if path.resolve() in seen:
                    left["a folder linked to twice"] += 1
                else:
                    seen.add(path.resolve())
                    waiting.append(path)
            elif path.is_symlink() and not path.exists():
                left["a link to nowhere"] += 1
            elif not path.is_file():
                left["no ordinary file"] += 1
            elif path.suffix.lower() not in SUFFIXES:
                left["no image by its name"] += 1
            else:
                files.append(path)
    return sorted(files), left


def _reasons(left: Counter[str]) -> str:
    return ", ".join(f"{n} {'is' if n == 1 else 'are'} {why}" for why, n in sorted(left.items()) if n)


def _said(left: Counter[str]) -> str:
    return f": {_reasons(left)}" if sum(left.values()) else ""


def _read_image(file: Path, expected: Expected) -> np.ndarray | None:
    """(C, H, W), uint8 or, of more than 8 bits, float32 in [0, 1]; grey or in colour, whichever the network takes;
    None where its size does not fit.  The first frame of several; transparency is dropped."""
    try:
        with Image.open(file) as image:
            width, height = image.size
            channels = expected.colours(width, height, 1 if image.mode in ("1", "L", "LA", *DEEP) else 3)
            if channels is None:
                return None
            if image.mode.startswith(DEEP):
                deep = np.asarray(image, dtype=np.float32)
                top = 1.0 if image.mode.startswith("F") and deep.max() <= 1 else 65535.0
                return np.repeat((deep / np.float32(top))[None], channels, axis=0)
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ReconError(f"the image {file} cannot be read: {error}") from error
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


def _from_npz(file: Path, part: str, key: str | None, expected: Expected) -> Images:
    """The array `key`, or the only one besides labels; labels from `KEY_labels` or `labels`."""
    if not file.is_file():  # a pipe would be waited for without end
        raise ReconError(f"{file} is neither a folder nor a file")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            names = [name for name in arrays.files if not name.endswith("labels")]
            if key is None and part in names:
                key = part
            if key is not None and key not in names:
                raise _missing(file, part) if part != "train" else ReconError(f"{file} has no array train")
            if key is None and len(names) != 1:
                raise ReconError(f"{file} must hold one array, not {len(names)}")
            array = arrays[key or names[0]]
            held = next((name for name in (f"{part}_labels", "labels") if name in arrays.files), None)
            labels = None if held is None or (held == "labels" and len(names) > 1) else arrays[held]
    except NOT_AN_NPZ as error:
        if isinstance(error, ReconError):
            raise
        raise ReconError(f"{file} cannot be read as an .npz of plain arrays: {error}") from error
    found = from_array(array, part, expected, str(file))
    if labels is not None and labels.shape != (len(found),):
        raise ReconError(f"{file}: there are {len(found)} {part} images and labels of shape {labels.shape}")
    return found if labels is None else replace(found, labels=[str(label) for label in labels.tolist()])


# ---------------------------------------------------------------------------------------------------------- labels


def classes_of(train: Images, held_out: Images, given: Any, outputs: int) -> tuple[Tensor, Tensor, str] | None:
    """Classes (n,) in 0 … K − 1 of both sets and where they are from, in words; None where nobody knows them.

    given: a pair of label sequences, the path of a CSV file with lines `name,label`, "predicted" (None is returned), or
    None for those that came with the images, as far as they fit.  Labels that are numbers below K count as they are;
    others are numbered in their order, of numbers or of text.  ReconError for labels that do not fit.
    """
    classes = max(outputs, 2)
    if isinstance(given, str) and given == "predicted":
        return None
    if isinstance(given, str | Path):
        table = _table(Path(given))
        parts = [_looked_up(part, table, given) for part in (train, held_out)]
        origin = f"labels of {printable(Path(given))}"
    elif given is not None:
        parts = [labels_in(part) for part in given]
        origin = "labels as given"
    elif train.labels is not None and held_out.labels is not None:
        parts, origin = [train.labels, held_out.labels], "labels that came with the images"
    else:
        return None
    if [len(part) for part in parts] != [len(train), len(held_out)]:
        raise ReconError(
            f"there are {len(train)} and {len(held_out)} images, and {' and '.join(str(len(p)) for p in parts)} labels"
        )
    parts = [[label.removesuffix(".0") for label in part] for part in parts]
    found = set(parts[0]) | set(parts[1])
    decimal = all(name.isdecimal() for name in found)
    names = sorted(found, key=int) if decimal else sorted(found)  # 10 comes after 9, and not after 1
    if decimal and int(names[-1]) < classes:
        number = {name: int(name) for name in names}
    elif len(names) <= classes:
        number = {name: row for row, name in enumerate(names)}
        origin += f", numbered in their order ({names[0]} is output 0, {names[-1]} is output {len(names) - 1})"
    elif given is None:  # subfolders may be anything
        return None
    else:
        raise ReconError(
            f"the images have {len(names)} labels ({', '.join(names[:4])}, …), and the network {classes} classes"
        )
    y, y_held_out = (torch.tensor([number[label] for label in part]) for part in parts)
    return y, y_held_out, origin


def _table(path: Path) -> dict[str, str]:
    if not path.is_file():  # a pipe would be waited for without end
        raise ReconError(f"the labels {path} cannot be read: there is no such file")
    if path.stat().st_size > MAX_TABLE:
        raise ReconError(f"the labels {path} are too large to be lines of a name and a label")
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets write a mark of byte order
        separator = ";" if text.split("\n", 1)[0].count(";") and "," not in text.split("\n", 1)[0] else ","
        separator = "\t" if "\t" in text.split("\n", 1)[0] else separator
        rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if any(map(str.strip, row))]
    except (OSError, ValueError, csv.Error) as error:
        raise ReconError(f"the labels {path} cannot be read: {error}") from error
    if not rows or any(len(row) != 2 for row in rows):
        raise ReconError(f"the labels {path} must be lines of two fields, the name of an image and its label")
    return {name.strip().replace("\\", "/"): label.strip() for name, label in rows}


def _looked_up(images: Images, table: dict[str, str], path: Any) -> list[str]:
    """By the whole name, or by its last part where that is told apart by it."""
    bare = Counter(name.rpartition("/")[2] for name in images.names)
    found = []
    for name in images.names:
        last = name.rpartition("/")[2]
        label = table.get(name, table.get(last) if bare[last] == 1 else None)
        if label is None:
            raise ReconError(f"the labels {path} have no line for {name}")
        found.append(label)
    return found


# ------------------------------------------------------------------------------------------------------- transform


@dataclass(frozen=True)
class Transform:
    """What training did to pixels: (x − mean) / std, or `function`.  mean, std: (C, H, W) or what broadcasts to it ·
    words: for the report."""

    words: str
    mean: Tensor
    std: Tensor
    function: Callable[[Tensor], Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs of the network (n, C, H, W) for pixels (n, C, H, W)."""
        if self.function is None:
            return (x - self.mean) / self.std
        try:
            found = self.function(x.clone())
        except Exception as error:  # a stranger's function
            raise ReconError(f"the transform fails on images of shape {tuple(x.shape)}: {error}") from error
        if not isinstance(found, Tensor) or found.shape != x.shape or not torch.isfinite(found).all():
            raise ReconError("the transform must return finite images of the shape that it is given")
        return found.float()

    def back(self, x: Tensor) -> Tensor:
        """Pixels of inputs; of a `function`, whose inverse nobody knows, the inputs themselves."""
        return x if self.function is not None else x * self.std + self.mean


def transform_of(given: Any, train: Images) -> Transform:
    """given: None for inputs as they are (bytes over 255) · "image", "channel", "none": training subtracted its mean
    image, its mean colour, or nothing · a pair (mean, std) · a function of (n, C, H, W)."""
    zero, one = torch.zeros(train.shape), torch.ones(1)
    if given is None:
        return Transform("nothing", zero, one)
    if isinstance(given, str):
        return Transform(WORDS.get(given, ""), mean_image(train, given).view(train.shape), one)
    if isinstance(given, tuple | list) and len(given) == 2:
        try:
            mean, std = (torch.as_tensor(each, dtype=torch.float32) for each in given)
            mean, std = (each.view(-1, 1, 1) if each.dim() < 2 else each for each in (mean, std))
            mean, std = mean.expand(train.shape), std.expand(train.shape)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ReconError(
                f"transform must be a pair (mean, std) for images of shape {train.shape}: {error}"
            ) from error
        if not (torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all()):
            raise ReconError("transform must be a finite mean and a positive std")
        return Transform("mean and standard deviation as given", mean, std)
    if callable(given):
        return Transform("a function as given", zero, one, given)
    raise ReconError(f"transform must be one of {', '.join(MEANS)}, a pair (mean, std) or a function, not {given!r}")


WORDS = {
    "image": "the mean of the training images",
    "channel": "the mean colour of the training images",
    "none": "nothing",
}


def mean_image(train: Images, kind: str) -> Tensor:
    """What training subtracted from every image, (d,): the mean "image" of the training set, its mean colour
    ("channel"), or nothing ("none")."""
    if kind not in MEANS:
        raise ReconError(f"unknown mean '{kind}': choose one of {', '.join(MEANS)}")
    mean = train.flat.mean(0)
    if kind == "channel":
        by_channel = mean.unflatten(0, (train.pixels.shape[1], -1))
        mean = by_channel.mean(1, keepdim=True).expand_as(by_channel).flatten()
    return mean if kind != "none" else torch.zeros_like(mean)
