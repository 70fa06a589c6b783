"""What an audit says, in sentences: the macros of words.jinja, called as functions.

>>> say("and", ["a", "b", "c", "d", "e"]), say("and", ["a", "b"])
('a, b, c and 2 more', 'a and b')
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from recon_audit.images import printable


@cache
def environment(escaped: bool = False) -> Environment:
    """Of the templates beside this file."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    made.filters["printable"] = printable
    made.globals["say"] = say
    return made


def text(name: str, *facts: Any, **more: Any) -> str:
    """What the macro of this name says, line by line."""
    return str(getattr(environment().get_template("words.jinja").module, name)(*facts, **more))


def say(name: str, *facts: Any, **more: Any) -> str:
    """The same as one line."""
    return " ".join(text(name, *facts, **more).split())
