"""Tables of metrics with other values."""

from __future__ import annotations

import dataclasses
from typing import Any

from companion.store.record import Record


def replace(table: Any, **changes: Any) -> Any:
    """A copy with other values of these names: of a record, or of a dataclass."""
    return table.but(**changes) if isinstance(table, Record) else dataclasses.replace(table, **changes)
