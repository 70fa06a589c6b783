"""Tables of a sweep's units as the tensors that `Context.sweep` stores."""

from __future__ import annotations

import json
from typing import Any

import torch

from companion.chapters.base import Tensors
from companion.store.record import record


def packed(table: Any) -> Tensors:
    """A table, or a list of them, as JSON, as a tensor of bytes, for `Context.sweep`."""
    return {"json": torch.frombuffer(bytearray(json.dumps(record(table)).encode()), dtype=torch.uint8)}


def unpacked(tensors: Tensors) -> Any:
    """Inverse of `packed`: as records."""
    return record(json.loads(bytes(tensors["json"].tolist())))
