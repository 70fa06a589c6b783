"""Tables that chapters share, as records: their names are those of `result.json`; as tensors, for a
sweep.
"""

import json
from collections.abc import Mapping
from typing import Any

import torch

from companion.chapters.base import Tensors
from companion.store.record import Record, record
from recon.optim.trace import note


class MatchTable(Record):
    """All that is counted of an attack's candidates, training images beside held-out ones (null_…)
    in their place; with the fields of `recon.scoring.nulls.NullTable`.

    null: held-out images with a candidate of their own · competition: candidates offered to
    training and held-out images at once, at three thresholds of NCC · n_photographs: other
    photographs of the pool, as they are, in the first of two such nulls; fewer than candidates
    where the pool has no more.
    """


NULL_NAMES = {
    "span": "mixtures of the searched span",
    "mixtures": "mixtures of the training images",
    "rows": "rows of ±W1",
    "directions": "singular directions",
    "means": "mean images",
    "photographs": "other photographs as they are",
    "photographs_2": "other photographs as they are",
    "start_photographs": "the photographs that it starts from",
    "held_out": "held-out images",
}


def null_text(count: int, name: str) -> str:
    """A null in words: "14 (mixtures of the training images)"."""
    return f"{count} ({NULL_NAMES[name]})"


def flat(table: Any) -> dict[str, Any]:
    """Name -> value of a table, to build a larger one that has them too."""
    return dict(record(table))


def packed(table: Any) -> Tensors:
    """A table, or a list of them, as JSON, as a tensor of bytes, for `Context.sweep`; a trace gets
    its numbers, but for counts.
    """
    note("result", *numbers(record(table)))
    return {
        "json": torch.frombuffer(bytearray(json.dumps(record(table)).encode()), dtype=torch.uint8)
    }


def numbers(table: Any) -> list[float]:
    """All of a record but whole ones, its names in the order of the alphabet.

    >>> numbers({"b": 0.5, "a": [1.5, {"matches": 3}]})
    [1.5, 0.5]
    """
    if isinstance(table, Mapping):
        table = [table[name] for name in sorted(table)]
    if isinstance(table, list):
        return [number for part in table for number in numbers(part)]
    return [table] if isinstance(table, float) else []


def unpacked(tensors: Tensors) -> Any:
    """Inverse of `packed`: as records."""
    return record(json.loads(bytes(tensors["json"].tolist())))
