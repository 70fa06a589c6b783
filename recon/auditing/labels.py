"""Labels, from wherever their owner keeps them, as numbers of the network's outputs."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.auditing.images import Images, as_array, printable
from recon.errors import ReconError, one_reason

NAMES = ("name", "file", "filename", "file_name", "image", "img", "path", "image_name", "image_path", "image_id", "id")
LABELS = ("label", "labels", "class", "target", "category", "y")
MAX_TABLE = 100_000_000  # bytes of a file of labels


def labels_in(given: Any) -> list[str]:
    """(n,), (n, 1) or one-hot (n, K) numbers, or n names, as texts; ReconError for anything else.

    >>> labels_in([[0, 1], [1, 0]]), labels_in([[3], [4]]), labels_in(["cat", "dog"]), labels_in([1.0, 2.0])
    (['1', '0'], ['3', '4'], ['cat', 'dog'], ['1', '2'])
    """
    with one_reason("labels must be a class for each image"):
        array = as_array(given)
    if array.dtype == object and array.ndim == 1 and all(isinstance(each, str | int) for each in array):
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
        raise ReconError(f"labels like {array[array != np.round(array)][0]:.4g} are no classes: an audit needs classes")
    return [_text(label) for label in array.tolist()]


def _text(label: Any) -> str:
    """As a table would have it: of 3.0 "3", of bytes their letters."""
    text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
    return re.sub(r"(?<=[0-9])\.0+$", "", text.strip())


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
        counts = " and ".join(str(len(part)) for part in parts)
        raise ReconError(f"there are {len(train)} and {len(held_out)} images, and {counts} labels")
    parts = [[_text(label) for label in part] for part in parts]
    found = set(parts[0]) | set(parts[1])
    decimal = all(re.fullmatch(r"[-+]?[0-9]{1,9}", name) for name in found)
    names = sorted(found, key=int) if decimal else sorted(found)  # 10 comes after 9, and not after 1
    if decimal and int(names[0]) >= 0 and int(names[-1]) < classes:
        number = {name: int(name) for name in names}
    elif len(names) <= classes:
        number = {name: row for row, name in enumerate(names)}
        origin += f", numbered in their order ({names[0]} is output 0, {names[-1]} is output {len(names) - 1})"
    elif given is None and not decimal:  # subfolders may be anything
        return None
    else:
        held = f"{len(names)} labels ({', '.join(names[:4])}, …)"
        raise ReconError(f"the images have {held}, and the network {classes} classes")
    y, y_held_out = (torch.tensor([number[label] for label in part]) for part in parts)
    return y, y_held_out, origin


def _table(path: Path) -> dict[str, str]:
    """Name -> label, as spreadsheets write them: UTF-8 or UTF-16, perhaps with a mark of byte order, fields divided by
    comma, semicolon or tab, columns by their headings if there are any."""
    if not path.is_file():  # a pipe would be waited for without end
        raise ReconError(f"the labels {path} cannot be read: there is no such file")
    if path.stat().st_size > MAX_TABLE:
        raise ReconError(f"the labels {path} are too large to be lines of a name and a label")
    with one_reason(f"the labels {path} cannot be read"):
        data = path.read_bytes()
        lines = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig").splitlines()
        said = re.fullmatch(r"sep=(.)", lines[0].strip()) if lines else None  # in a line of its own
        separator = said[1] if said else max(",;\t", key="".join(lines[:1]).count)
        rows = [row for row in csv.reader(lines[bool(said) :], delimiter=separator) if any(map(str.strip, row))]
    heads = [head.strip().lower() for head in rows[0]] if rows else []
    name = next((k for k, head in enumerate(heads) if head in NAMES), None)
    label = next((k for k, head in enumerate(heads) if head in LABELS), None)
    if name is not None and label is not None and all(len(row) == len(heads) for row in rows):
        rows = [[row[name], row[label]] for row in rows[1:]]
    if not rows or any(len(row) != 2 for row in rows):
        raise ReconError(f"the labels {path} must be lines of two fields, the name of an image and its label")
    return {name.strip().replace("\\", "/").removeprefix("./"): label.strip() for name, label in rows}


def _looked_up(images: Images, table: dict[str, str], path: Any) -> list[str]:
    """By the whole name, or by its last part, with or without suffix, where it is told apart by that."""
    ways = [[way(name) for name in images.names] for way in (str, lambda name: name.rpartition("/")[2], _stem)]
    counts = [Counter(way) for way in ways[1:]]
    found = []
    for name, last, stem in zip(*ways, strict=True):
        known = [name, *(each for each, count in zip((last, stem), counts, strict=True) if count[each] == 1)]
        label = next((table[each] for each in known if each in table), None)
        if label is None:
            raise ReconError(f"the labels {path} have no line for {name}")
        found.append(label)
    return found


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]
