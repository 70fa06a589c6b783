"""Labels, from wherever their owner keeps them, as numbers of the network's outputs."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.auditing.images import Images, printable
from recon.errors import ReconError

MAX_TABLE = 100_000_000  # bytes of a file of labels


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
