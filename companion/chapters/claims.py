"""A claim is its words, which stand in book/claims.yml, and a rule, which a story holds."""

from collections.abc import Mapping
from functools import cache, reduce
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from companion.store.record import record
from companion.store.results import Claim
from recon.errors import ReconError

ROOT = Path(__file__).resolve().parents[2]
PAPERS = {
    "runkel2024": "Runkel et al.",
    "chen2022": "Chen & Campbell",
    "others": "other papers",
    "ours": "ours",
}

#: words with names of numbers -> their field of `Claim`
FILLED = {"ours": "ours", "baseline": "null"}


def claims_page(root: Path = ROOT) -> dict[str, Any]:
    """book/claims.yml: claims by paper, and what was not attempted; ReconError if it cannot be
    read.
    """
    try:
        return yaml.load((root / "book" / "claims.yml").read_text("utf-8"), yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise ReconError(f"book/claims.yml cannot be read: {error}") from error


class _Numbers(Formatter):
    """`str.format`, where the field of a list is that of its elements, and a list is written with
    commas.

    >>> _Numbers().format("{rows.n:.0f}", rows=[{"n": 1}, {"n": 2}])
    '1, 2'
    """

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        return reduce(_field, field_name.split("."), kwargs), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list):
            return ", ".join(self.format_field(element, format_spec) for element in value)
        return format(value, format_spec)


def _field(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_field(element, name) for element in value]
    return value[name] if type(value) is dict else getattr(value, name)


def claim(name: str, values: Mapping[str, Any] | None = None, **measured: Any) -> Claim:
    """What a run says of the claim that book/claims.yml has under this name.

    Args:
        values: what the words `ours` and `baseline` take their numbers from: "{n}",
            "{matches.ncc_07}", "{rows.share:.0%}" (of every row, with commas).
        measured: the fields of `Claim`: the verdict, `value`, `null_value`, `margin`; `ours` and
            `null` where their words depend on the run.
    """
    if name not in texts():
        raise ReconError(f"book/claims.yml has no claim '{name}'")
    numbers = record(values or {})
    words = {
        field: _Numbers().vformat(text, (), numbers) for field, text in _filled()[name].items()
    }
    return Claim(name, **texts()[name] | words | measured)


@cache
def texts() -> dict[str, dict[str, str]]:
    """Claim -> its words: `section`, `paper` and `sentence`."""
    return {
        name: {field: text for field, text in words.items() if field not in FILLED}
        for name, words in _words().items()
    }


@cache
def _filled() -> dict[str, dict[str, str]]:
    """Claim -> its fields `ours` and `null`, with names of numbers."""
    return {
        name: {field: words[word] for word, field in FILLED.items() if word in words}
        for name, words in _words().items()
    }


def _words() -> dict[str, dict[str, str]]:
    page = claims_page()
    return {name: words for paper in PAPERS for name, words in page[paper].items()}
