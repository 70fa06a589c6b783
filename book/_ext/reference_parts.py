"""The reference pages: every public name of the package, its docstring as it is typed, its
signature as it is written.

Docstrings of this package are plain text. What Sphinx would make of them, and of a default
argument's `repr` (a folder of the machine that builds, an address in its memory), is put right
here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Container, Iterator, Sequence
from pkgutil import walk_packages
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc import DataDocumenter
from sphinx.ext.autodoc.preserve_defaults import DefaultValue

import recon
import recon_audit
from recon.attacks import adapters, from_gradients, from_weights
from recon.attacks.registry import NEEDS

WIDEST = 88  # characters of a signature on one line; a longer one has a line for each parameter
LONGEST_VALUE = 60  # characters of a constant's value that the page shows


def modules(parts: Container[str] | None = None) -> list[str]:
    """Every module of the package and of the audit with something for a reader: no command line.

    Args:
        parts: only those of these folders, or files, of the package; "audit" for the audit's.
    """
    names = [
        each.name
        for package in (recon, recon_audit)
        for each in walk_packages(package.__path__, f"{package.__name__}.")
        if not each.ispkg and not each.name.endswith(".cli")
    ]

    def part(name: str) -> str:
        package, inside = name.split(".")[:2]
        return "audit" if package == "recon_audit" else inside

    return [name for name in names if parts is None or part(name) in parts]


def attack_table() -> str:
    """A Markdown table of the attacks that are one function each, and of what they need: as they
    say it themselves.
    """
    lines = [
        "| attack | released | start W(0) | labels | beside it | layers |",
        "|---|---|---|---|---|---|",
    ]
    by_place = (
        (place, name)
        for place in (from_weights, adapters, from_gradients)
        for name in NEEDS
        if hasattr(place, name)
    )
    for place, name in by_place:
        needs = NEEDS[name]
        link = f"{{py:func}}`{name} <{place.__name__}.{name}>`"
        cells = (needs.released.__name__, needs.start, needs.labels, needs.prior, needs.layers)
        lines.append(f"| {needs.title}, {link} | {' | '.join(cells)} |")
    return "\n".join(lines)


# --------------------------------------------------------------------------------------- docstrings


def plain(
    _app: Sphinx, _what: str, _name: str, obj: object, _options: object, lines: list[str]
) -> None:
    """Docstrings are plain text with `code` and formulas: nothing in them is markup but doctests.

    Of reStructuredText's characters only those are left that a paragraph cannot trip over; what is
    indented stays as it is typed; the sections `SECTIONS` become lists, but in what a library says
    of a function that is a default here.
    """
    sections = () if str(getattr(obj, "__module__", "")).startswith("torch") else SECTIONS
    blocks = "\n".join(lines).strip("\n").split("\n\n")
    lines[:] = "\n\n".join(_plain_block(block, sections) for block in blocks).split("\n") + [""]


#: of Google's style, one argument a line
SECTIONS = ("Args:", "Attributes:")


def _plain_block(block: str, sections: Sequence[str]) -> str:
    rows = block.strip("\n").split("\n")
    if rows[0].startswith(">>>"):
        return block
    if rows[0] in sections:
        return "\n".join(map(_item, items_of(rows[1:])))
    if any(row.startswith("  ") for row in rows):
        return "::\n\n" + "\n".join(f"   {row}" for row in rows)
    return _escaped("\n".join(rows))


def items_of(rows: list[str]) -> list[str]:
    """The entries of a section, each on one line.

    >>> items_of(["    steps: at most.", "    x (n, d): images,", "        in [0, 1]."])
    ['steps: at most.', 'x (n, d): images, in [0, 1].']
    """
    items: list[str] = []
    for row in rows:
        if row.startswith(" " * 8):
            items[-1] += f" {row.strip()}"
        else:
            items.append(row.strip())
    return items


def _item(item: str) -> str:
    """With its names as code."""
    names = re.match(r"[\w*]+(?:, [\w*]+)*", item)
    assert names is not None, item
    return f"- ``{names[0].replace(', ', '``, ``')}``{_escaped(item[names.end() :])}"


def _escaped(text: str) -> str:
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"`{each}`" if each[:1] == "`" else re.sub(r"([\\*_|`])", r"\\\1", each) for each in pieces
    )


# --------------------------------------------------------------------------------------- signatures


def as_written(_app: Sphinx, obj: Any, _bound: bool) -> None:
    """Before the signature of a dataclass is taken: the defaults of its fields as its source has
    them.

    Of functions Sphinx does so itself (autodoc_preserve_defaults); the `__init__` of a dataclass
    has no source.
    """
    owner = _dataclass_of(obj)
    if owner is None:
        return
    written = dict(_defaults(owner))
    signature = inspect.signature(obj)
    obj.__signature__ = signature.replace(
        parameters=[
            (
                each
                if each.default is each.empty
                else each.replace(default=DefaultValue(written[each.name]))
            )
            for each in signature.parameters.values()
        ]
    )


def _dataclass_of(init: Any) -> type | None:
    """The dataclass whose generated `__init__` this is."""
    owner: Any = sys.modules.get(getattr(init, "__module__", ""))
    *path, name = getattr(init, "__qualname__", "").split(".")
    for part in path if name == "__init__" else ():
        owner = getattr(owner, part, None)
    return owner if isinstance(owner, type) and dataclasses.is_dataclass(owner) else None


def _defaults(owner: type) -> Iterator[tuple[str, str]]:
    """Field and default, of the class and of those that it inherits from; its own come last and
    count.
    """
    for each in reversed(owner.__mro__):
        if dataclasses.is_dataclass(each):
            source = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
            assert isinstance(source, ast.ClassDef)
            for node in source.body:
                if (
                    isinstance(node, ast.AnnAssign)
                    and isinstance(node.target, ast.Name)
                    and node.value is not None
                ):
                    yield node.target.id, default_text(node.value)


def default_text(value: ast.expr) -> str:
    """A field's default as one would pass it: of `field(default_factory=list)` what it makes,
    `list()`.

    >>> default_text(ast.parse("field(default_factory=KKTSettings)").body[0].value), default_text(ast.Constant(3e-5))
    ('KKTSettings()', '3e-05')
    """  # noqa: E501
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "field"
    ):
        given = {each.arg: each.value for each in value.keywords}
        if "default_factory" in given:
            made = given["default_factory"]
            return (
                ast.unparse(made.body) if isinstance(made, ast.Lambda) else f"{ast.unparse(made)}()"
            )
        return ast.unparse(given.get("default", value))
    return ast.unparse(value)


class Data(DataDocumenter):
    """A module's constant: its value is shown where it reads as code, and is short."""

    def should_suppress_value_header(self) -> bool:
        """Also for functions, classes and paths, whose `repr` is not code."""
        value = repr(self.object)
        return (
            len(value) > LONGEST_VALUE
            or bool(re.search(r"<\w|Path\(", value))
            or super().should_suppress_value_header()
        )


def lines_of_signatures(
    _app: Sphinx, _pagename: str, _templatename: str, context: dict[str, Any], _doctree: object
) -> None:
    """Before a page is written: the parameters of a long signature, which Sphinx writes as a list
    of definitions that define nothing, are lines of it.
    """

    def lines(found: re.Match[str]) -> str:
        parameters = (
            found.group(1).replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
        )
        return f'<span class="sig-lines">{parameters}</span>'

    if "body" in context:
        context["body"] = re.sub(
            r"<dl>\s*((?:<dd><em class=\"sig-param\">.*?</dd>\s*)+)</dl>", lines, context["body"]
        )


def setup(app: Sphinx) -> dict:
    """Autodoc, with all of the above."""
    app.setup_extension("sphinx.ext.autodoc")
    app.config.autodoc_preserve_defaults = True
    app.config.add_module_names = False
    app.config.python_maximum_signature_line_length = WIDEST
    app.add_autodocumenter(Data, override=True)
    app.connect("autodoc-process-docstring", plain)
    app.connect("autodoc-before-process-signature", as_written)
    app.connect("html-page-context", lines_of_signatures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
