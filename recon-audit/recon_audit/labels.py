"""Labels of images as their owner has them, and the classes that they are for a network."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError, one_reason
from recon_audit.images import Images, printable

WHOLE = "write whole names, such as train/0001.png"
UTF16 = b"\xff\xfe", b"\xfe\xff"


def labels_in(source: Any) -> list[str]:
    """(n,), (n, 1) or one-hot (n, K) numbers, or n names, as texts; ReconError for anything else.

    >>> labels_in([[0, 1], [1, 0]]), labels_in([[3], [4]]), labels_in(["cat", "dog"]), labels_in([1.0, 2.0])
    (['1', '0'], ['3', '4'], ['cat', 'dog'], ['1', '2'])
    """  # noqa: E501
    with one_reason("labels must be a class for each image, as numbers, names or one-hot rows"):
        array = np.asarray(source.tolist() if isinstance(source, Tensor) else source)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        elif array.ndim == 2 and ((array == 0) | (array == 1)).all() and (array.sum(1) == 1).all():
            array = array.argmax(1)
        return [_text(label) for label in array.tolist()]


def _text(label: Any) -> str:
    """As a table would have it: of 3.0 "3", of bytes their letters."""
    if isinstance(label, bytes):
        return _text(label.decode("utf-8", "replace"))
    whole = re.sub(r"(?<=[0-9])\.0+$", "", str(label).strip())
    if not isinstance(label, str | bool) and not whole.lstrip("-").isdecimal():
        raise ReconError(f"labels like {whole:.6} are no classes: an audit needs classes")
    return whole


def classes_of(
    sets: tuple[Images, Images], source: Any, outputs: int
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
    if isinstance(source, str | Path):
        if source == "predicted":
            return None
        labels, origin = look_up(sets, source), f"labels of {printable(Path(source))}"
    else:
        given = [part.labels for part in sets] if source is None else source
        if source is None and any(part is None for part in given):
            return None
        labels = of_both(sets, given, "labels", labels_in)
        origin = "labels that came with the images" if source is None else "labels as given"
    values = np.array(labels)
    with suppress(ValueError, OverflowError):  # 10 comes after 9, and not after 1
        values = values.astype(np.int64)
    names, rows = np.unique(values, return_inverse=True)
    if values.dtype == np.int64 and names[0] >= 0 and names[-1] < classes:
        rows = values
    elif len(names) <= classes:
        origin += (
            f", numbered in their order ({names[0]} is output 0, {names[-1]} is output"
            f" {len(names) - 1})"
        )
    elif source is None and values.dtype != np.int64:  # subfolders may be anything
        return None
    else:
        raise ReconError(
            f"the images have {len(names)} labels ({', '.join(map(str, names[:4]))}, …), and the"
            f" network {classes} classes"
        )
    y, y_held_out = torch.from_numpy(rows).split([*map(len, sets)])
    return y, y_held_out, origin


def of_both(
    sets: tuple[Images, Images], source: Any, what: str, read: Callable[[Any], Any]
) -> list[Any]:
    """One for each image of both sets, of a pair of sequences; ReconError where it is none."""
    with one_reason(f"there must be {len(sets[0])} and {len(sets[1])} {what}"):
        pairs = zip(sets, source, strict=True)
        return [of for part, ofs in pairs for _, of in zip(part.names, read(ofs), strict=True)]


def _table(path: Path) -> dict[str, str]:
    """Name -> label, as spreadsheets write them: UTF-8 or UTF-16, perhaps with a mark of byte
    order, fields divided by comma, semicolon or tab. ReconError for two labels of one name.
    """
    table: dict[str, str] = {}
    with one_reason(f"the labels {path} cannot be read"):
        if not path.is_file():  # a pipe would be waited for without end
            raise FileNotFoundError("there is no such file")
        data = path.read_bytes()
        text = data.decode("utf-16" if data.startswith(UTF16) else "utf-8-sig")
        for row in csv.reader(text.splitlines(), delimiter=max(",;\t", key=text.count)):
            if any(map(str.strip, row)):
                name, label = row[-2:]  # a column of row numbers may stand before them
                name = name.strip().replace("\\", "/").removeprefix("./")
                if table.setdefault(name, _text(label)) != _text(label):
                    raise ReconError(
                        f"the labels {path} have two lines for {name}, {table[name]} and {label}:"
                        f" {WHOLE}"
                    )
    if not table:
        raise ReconError(f"the labels {path} hold no lines of a name and its label")
    return table


def look_up(sets: tuple[Images, Images], path: Any) -> list[str]:
    """What a CSV file says of images: by the whole name, or by its last part, with or without
    suffix, where it is told apart by that from the images of both sets.
    """
    table, labels = _table(Path(path)), []
    ways = [(name, Path(name).name, Path(name).stem) for part in sets for name in part.names]
    counts = Counter(way for ways_of in ways for way in {*ways_of})
    for ways_of in ways:
        known = next((way for way in ways_of if way in table), None)
        if known is None:
            raise ReconError(f"the labels {path} have no line for {ways_of[0]}")
        if counts[known] > 1:
            raise ReconError(
                f"the labels {path} say {known}, as {counts[known]} images are called: {WHOLE}"
            )
        labels.append(table[known])
    return labels
