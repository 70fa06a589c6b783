"""Images that an audit compares with, from wherever their owner keeps them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from recon.auditing.images import Expected, Images, from_array
from recon.auditing.labels import labels_in
from recon.auditing.stored import from_files, from_folder, from_npz, part_of
from recon.errors import ReconError

TWICE = 16  # items that are read twice: a flip leaves an image as it was in half of the cases
MIN_IMAGES = 6  # with 5 of each even a perfect attack has p = 9/252 in `recon.auditing.scoring.score`


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
        parts = [part_of(Path(train), part, expected) for part in ("train", "held_out")]
    else:
        parts = [images_of(train, "train", expected), images_of(held_out, "held_out", expected)]
    return checked(*parts)


def checked(train: Images, held_out: Images) -> tuple[Images, Images]:
    """Both, of one shape and type, enough of them, and none in both."""
    if train.shape != held_out.shape and sorted((train.shape[:2], held_out.shape[:2]))[0] == (1, 1):
        rows = math.prod(train.shape), math.prod(held_out.shape)  # of one that seems to be images, and one of rows
        if rows[0] == rows[1]:
            held_out = replace(held_out, pixels=held_out.pixels.reshape(-1, *train.shape))
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
    known = {_digest(image): name for image, name in zip(train.pixels, train.names, strict=True)}
    both = [row for row, image in enumerate(held_out.pixels) if _digest(image) in known]
    if len(held_out) - len(both) < MIN_IMAGES:
        first = both[0]
        raise ReconError(
            f"{held_out.names[first]} is the training image {known[_digest(held_out.pixels[first])]}: held-out images "
            "must be ones that the network never saw"
        )
    if both:
        said = f"{len(both)} held-out images are training images (the first: {held_out.names[both[0]]}) and left out"
        left = held_out.take([row for row in range(len(held_out)) if row not in set(both)])
        held_out = replace(left, note="; ".join(filter(None, (held_out.note, said))))
    return train, held_out


def _digest(image: np.ndarray) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()


def images_of(source: Any, part: str, expected: Expected) -> Images:
    """One set of images from whatever holds them; see `load_images`."""
    if isinstance(source, Images):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise ReconError(f"there is no data at {path}")
        return from_folder(path, expected) if path.is_dir() else from_npz(path, part, None, expected)
    if isinstance(source, tuple | list) and len(source) == 2 and not isinstance(source[1], str | Path):
        labels = labels_in(source[1])
        found = images_of(source[0], part, expected)
        if len(labels) != len(found):
            raise ReconError(f"there are {len(found)} {part} images and {len(labels)} labels")
        return replace(found, labels=labels)
    if isinstance(source, list) and source and _is_nested(source):
        source = np.asarray(source)
    if isinstance(source, Tensor | np.ndarray):
        return from_array(source, part, expected)
    if hasattr(source, "to_numpy"):  # a table of pandas
        return images_of(source.to_numpy(), part, expected)
    if hasattr(source, "batch_sampler") and hasattr(source, "dataset"):
        source = _loaded_from(source, part)
    if isinstance(source, tuple | list) and source and all(isinstance(each, str | Path) for each in source):
        return from_files([Path(each) for each in source], expected)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _from_dataset(source, part, expected)
    raise ReconError(f"the {part} images must be a tensor, an array, a data set or a path, not {type(source).__name__}")


def _is_nested(source: list[Any]) -> bool:
    """Whether lists of lists of numbers are images, and not pairs of an image and a label."""
    try:
        return np.asarray(source[:2]).dtype.kind in "biuf" and isinstance(source[0], list)
    except (TypeError, ValueError):
        return False


def _loaded_from(loader: Any, part: str) -> Any:
    """What a DataLoader loads from, and of that what its sampler draws, in order; ReconError for one that draws items
    more than once."""
    source, sampler = loader.dataset, loader.sampler
    if not hasattr(source, "__len__"):
        raise ReconError(f"the {part} images come as a stream: pass them as a data set with a length, or as arrays")
    if isinstance(sampler, torch.utils.data.SequentialSampler):
        return source
    rows = sorted(int(row) for row in sampler) if sampler is not None else list(range(len(source)))
    if len(set(rows)) < len(rows):
        raise ReconError(f"the sampler of the {part} images draws some more than once: pass the data set itself")
    return source if rows == list(range(len(source))) else torch.utils.data.Subset(source, rows)


def _from_dataset(source: Sequence[Any], part: str, expected: Expected) -> Images:
    """Items are images, images with a label, or rows with an image and perhaps a label by name."""
    try:
        items = [_pair(source[row]) for row in range(len(source))]
        again = [_pair(source[row]) for row in range(min(len(source), TWICE))]
    except ReconError:
        raise
    except Exception as error:  # whatever a stranger's data set says
        raise ReconError(f"the {part} data set cannot be read: {' '.join(str(error).split())[:150]}") from error
    if not items:
        raise ReconError(f"there are no {part} images in the data set")
    labelled = len(items[0]) > 1
    pixels = [_pixels_of(item[0]) for item in items]
    if not all(np.array_equal(a, _pixels_of(b[0])) for a, b in zip(pixels, again, strict=False)):
        raise ReconError(
            f"the {part} data set gives another image each time that it is read: turn its augmentation off, "
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
    return np.asarray(
        image.detach().cpu().float() if isinstance(image, Tensor) and image.is_floating_point() else image
    )


def _plain(label: Any) -> Any:
    """A label as Python has it: of tensors their numbers."""
    return label.tolist() if isinstance(label, Tensor | np.ndarray | np.generic) else label
