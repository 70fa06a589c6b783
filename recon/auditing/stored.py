"""Images in folders and in files of NumPy."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from recon.auditing.images import Expected, Images, from_array, printable
from recon.auditing.labels import labels_in
from recon.errors import ReconError

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
DEEP = ("I", "F")  # Pillow's modes of more than 8 bits a channel
PARTS = {"train": ("train",), "held_out": ("held", "test", "val")}
NOT_AN_NPZ = (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error)  # an .npy has no files


def part_of(data: Path, part: str, expected: Expected) -> Images:
    if data.is_file():
        return from_npz(data, part, part, expected)
    if (data / part).is_dir():
        return from_folder(data / part, expected)
    if (data / f"{part}.npz").is_file():
        return from_npz(data / f"{part}.npz", part, None, expected)
    both = sorted(data.glob("*.npz"))
    if len(both) == 1 and both[0].stem not in ("train", "held_out"):
        return from_npz(both[0], part, part, expected)
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
    return _of_files(files, left, folder, expected)


def from_files(files: list[Path], expected: Expected) -> Images:
    """Of a list of their paths, in its order; ReconError for one that is not there."""
    if missing := [file for file in files if not file.is_file()]:
        raise ReconError(f"there is no image {missing[0]}")
    return replace(_of_files(files, Counter(), files[0].parent, expected), labels=None)


def _of_files(files: list[Path], left: Counter[str], folder: Path, expected: Expected) -> Images:
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
    inside = [file.relative_to(folder).parts if file.is_relative_to(folder) else file.parts[-1:] for file, _ in kept]
    names = ["/".join(map(printable, filter(None, (folder.name, *parts)))) for parts in inside]
    classes = [printable(parts[0]) for parts in inside]
    deep = all(len(parts) > 1 for parts in inside)
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


def from_npz(file: Path, part: str, key: str | None, expected: Expected) -> Images:
    """The array of this part, or the only one that holds no labels; labels from the array that says so.

    key: the part, where the file holds both.  Names are read by their words: `train`, `x_train`, `train_images`, with
    `train_labels`, `y_train` or `labels`; held out is `held_out`, else `test`, else `val`.
    """
    if not file.is_file():  # a pipe would be waited for without end
        raise ReconError(f"{file} is neither a folder nor a file")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            said = {name: _said_by(name) for name in arrays.files}
            images = [name for name, (_, labels) in said.items() if not labels]
            own = [name for which in PARTS[part] for name in images if said[name][0] == which]
            if key is not None and not own:
                raise _missing(file, part) if part != "train" else ReconError(f"{file} has no array train")
            if not own and len(images) != 1:
                raise ReconError(f"{file} must hold one array, not {len(images)}")
            chosen = (own or images)[0]
            which = said[chosen][0]
            held = [name for name, (of, labels) in said.items() if labels and of in (which, None)]
            held.sort(key=lambda name: said[name][0] is None)  # those that name the part come first
            alone = len(images) == 1
            array = arrays[chosen]
            labels = next((arrays[name] for name in held if said[name][0] is not None or alone), None)
    except NOT_AN_NPZ as error:
        if isinstance(error, ReconError):
            raise
        raise ReconError(f"{file} cannot be read as an .npz of plain arrays: {error}") from error
    found = from_array(array, part, expected, str(file))
    if labels is None:
        return found
    if labels.ndim == 0 or len(labels) != len(found):
        raise ReconError(f"{file}: there are {len(found)} {part} images and labels of shape {labels.shape}")
    return replace(found, labels=labels_in(labels))


def _said_by(name: str) -> tuple[str | None, bool]:
    """(which part an array of this name is of, whether it holds labels).

    >>> _said_by("x_train"), _said_by("test_labels"), _said_by("Ytrain"), _said_by("held_out"), _said_by("arr_0")
    (('train', False), ('test', True), ('train', True), ('held', False), (None, False))
    """
    words = set(re.findall(r"train|test|held|val|eval|labels?|targets?|class(?:es)?|[xy](?![a-z])|[xy]$", name.lower()))
    words |= {"y"} if re.match(r"y_?(tr|te|va)", name.lower()) else set()
    part = next((each for each in ("train", "test", "held", "val") if each in words), None)
    return part, bool(words & {"label", "labels", "target", "targets", "class", "classes", "y"})
