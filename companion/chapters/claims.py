"""A claim is its words, which stand in book/claims.yml, and a rule, which a story holds."""

from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from companion.store.record import Record, record
from companion.store.results import Claim
from recon.errors import ReconError, one_reason

ROOT = Path(__file__).resolve().parents[2]
PAPERS = {
    "runkel2024": "Runkel et al.",
    "chen2022": "Chen & Campbell",
    "ours": "ours",
}

NOT_MEASURED = "not measured at this size"
#: words with names of numbers -> their field of `Claim`
FILLED = {"ours": "ours", "baseline": "null"}


def claims_page(root: Path = ROOT) -> dict[str, Any]:
    """book/claims.yml: claims by paper, and what was not attempted; ReconError if it cannot be
    read.
    """
    with one_reason("book/claims.yml cannot be read"):
        return yaml.load((root / "book" / "claims.yml").read_text("utf-8"), yaml.CSafeLoader)


class _Numbers(Formatter):
    """`str.format` for lists too: the field of a list is that of its elements, and a list is
    written with commas, or each of its elements in words of its own. Those end with what stands
    between two, and take names from the element, then from around it; of a table by name the
    elements are its rows, with that `name`, or a `name` and a `value`. Of any other value the words
    stand where it is neither 0 nor None. Words that have numbers of empty lists alone are
    `NOT_MEASURED`; a number that is none is undefined.

    >>> _Numbers().format("{rows.n:.0f}", rows=[{"n": 1}, {"n": 2}])
    '1, 2'
    >>> _Numbers().format("{rows:{n} of {m}; }", rows=[{"n": 1}, {"n": 2}], m=3)
    '1 of 3; 2 of 3'
    >>> _Numbers().format("{errors:{value:.0%} on {name}, }", errors={"A": 0.1, "B": 0.2})
    '10% on A, 20% on B'
    >>> _Numbers().format("{rows.n:.0f} of {m}", rows=[], m=[])
    'not measured at this size'
    """

    def vformat(self, format_string: str, args: Any, kwargs: Mapping[str, Any]) -> str:
        words, values = [], []
        for text, name, spec, _ in self.parse(format_string):
            words.append(text)
            if name is not None:
                value = reduce(_field, name.split("."), kwargs)
                values.append(value)
                words.append(self._written(value, spec or "", kwargs))
        if values and all(value in ([], {}) for value in values):
            return NOT_MEASURED
        return "".join(words)

    def _written(self, value: Any, spec: str, around: Mapping[str, Any]) -> str:
        if "{" not in spec:
            elements = value if isinstance(value, list) else [value]
            written = ", ".join(format(element, spec) for element in elements)
            return "undefined" if written == "nan" else written
        rows = value if isinstance(value, list) else [{}] * bool(value)
        if isinstance(value, dict):
            rows = [
                {"name": name, "value": row, **(row if isinstance(row, dict) else {})}
                for name, row in value.items()
            ]
        words = (self.vformat(spec, (), Record({**around, **row})) for row in rows)
        return "".join(words).rstrip(",; ")


def _field(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_field(element, name) for element in value]
    return value[name] if type(value) is dict else getattr(value, name)


def claim(name: str, values: Mapping[str, Any] | None = None, **measured: Any) -> Claim:
    """What a run says of the claim that book/claims.yml has under this name.

    Args:
        values: what the words `ours` and `baseline` take their numbers from: "{n}",
            "{matches.ncc_07}", "{rows.share:.0%}" (of every row, with commas),
            "{rows:{share:.0%} of {n}; }" (every row in words of its own).
        measured: the fields of `Claim`: the verdict, `value`, `null_value`, `margin`; `ours` and
            `null` where their words depend on the run.
    """
    if name not in texts():
        raise ReconError(f"book/claims.yml has no claim '{name}'")
    numbers = record(values or {})
    words = _words()[name]
    filled = {
        field: _Numbers().vformat(words[word], (), numbers)
        for word, field in FILLED.items()
        if word in words
    }
    return Claim(name, **texts()[name] | filled | measured)


@cache
def texts() -> dict[str, dict[str, str]]:
    """Claim -> its words: `section`, `paper` and `sentence`."""
    return {
        name: {field: text for field, text in words.items() if field not in {*FILLED, "unit"}}
        for name, words in _words().items()
    }


@cache
def _words() -> dict[str, dict[str, str]]:
    page = claims_page()
    return {name: words for paper in PAPERS for name, words in page[paper].items()}
