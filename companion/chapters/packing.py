"""Typed cells of a sweep as the tensors that `Context.sweep` stores."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter

from companion.chapters.base import Tensors

T = TypeVar("T")


def packed(cell: Any, kind: Any) -> Tensors:
    """An instance of the type `kind`, as JSON, as a tensor of bytes, for `Context.sweep`."""
    found = TypeAdapter(kind).dump_python(cell, by_alias=True, mode="json")
    return {"json": torch.frombuffer(bytearray(json.dumps(found).encode()), dtype=torch.uint8)}


def unpacked(tensors: Tensors, kind: type[T]) -> T:
    """Inverse of `packed`."""
    return TypeAdapter(kind).validate_json(bytes(tensors["json"].tolist()), strict=True)


__all__ = ["packed", "unpacked"]
