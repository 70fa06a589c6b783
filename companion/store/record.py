"""Metrics as a table of names and values, whose names are attributes too."""

import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from pydantic import TypeAdapter


class Record(dict[str, Any]):
    """A table of metrics. `metrics.matches.ncc_07` is `metrics["matches"]["ncc_0.7"]`: an attribute
    is a name in lower case, without its dots, with "_" for what no name can have. What every dict
    has, such as `values`, is the dict's: take such a name in brackets. AttributeError lists the
    names that there are.

    >>> Record({"ncc_0.7": 3}).ncc_07
    3
    """

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        for key in self:
            if re.sub(r"\W+", "_", key.replace(".", "")).lower() == name:
                return self[key]
        raise AttributeError(f"there is no '{name}' among {', '.join(self)}")

    def only(self, *names: str) -> dict[str, Any]:
        """The values of these names, in this order."""
        return {name: self[name] for name in names}


def record(value: Any) -> Any:
    """A value as `result.json` gives it back: tables become records, sequences lists, names of
    tables texts.

    >>> record({"rows": ({"n": 1},)}).rows[0].n
    1
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = TypeAdapter(type(value)).dump_python(value, by_alias=True, mode="json")
    if isinstance(value, Mapping):
        return Record({str(key): record(inner) for key, inner in value.items()})
    return [record(inner) for inner in value] if isinstance(value, list | tuple) else value
