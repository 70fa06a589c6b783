"""Labels of images as their owner has them, and the classes that they are for a network."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError, one_reason
from recon_audit.images import Images, printable


def labels_in(source: Any) -> list[str]:
    """(n,), (n, 1) or one-hot (n, K) numbers, or n names, as texts; ReconError for anything else.

    >>> labels_in([[0, 1], [1, 0]]), labels_in([[3], [4]]), labels_in(["cat", "dog"]), labels_in([1.0, 2.0])
    (['1', '0'], ['3', '4'], ['cat', 'dog'], ['1', '2'])
    """  # noqa: E501
    with one_reason("labels must be a class for each image"):
        array = np.asarray(source.tolist() if isinstance(source, Tensor) else source)
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
        parts = [look_up(part, source) for part in (train, held_out)]
        origin = f"labels of {printable(Path(source))}"
    elif source is not None:
        parts = [labels_in(part) for part in source]
        origin = "labels as given"
    elif train.labels is not None and held_out.labels is not None:
        parts = [labels_in(part.labels) for part in (train, held_out)]
        origin = "labels that came with the images"
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


def look_up(images: Images, path: Any) -> list[str]:
    """What a CSV file says of images: by the whole name, or by its last part, with or without
    suffix, where it is told apart by that.
    """
    table = _table(Path(path))
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
