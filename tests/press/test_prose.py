"""Pages that a reader with ten minutes can read: forbidden phrases, the sizes of pages, and numbers
from results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from companion.chapters import ROOT
from companion.press.edition import is_appendix

FORBIDDEN = re.compile(
    r"what costs nothing|takes? no attack|\btheirs\b|\bthe (?:latter|former)\b"
    r"|\bearlier editions?\b|\b(?:first|second|third|this|an?) edition\b"
    r"|\breview(?:s|er|ers|ed)?\b|\bwas recorded\b"
    r"|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b",  # a commit
    re.IGNORECASE,
)
#: what is no prose: code, directives without text, tables, headings, formulas, HTML
SILENT = re.compile(
    r"^ *(`{3,})(?!\{(?:note|tip|admonition|dropdown|warning))[\s\S]*?^ *\1 *$"
    r"|^[|#:].*$|^---[\s\S]*?^---$"
    r"|\$\$[\s\S]*?\$\$|<style[\s\S]*?</style>|<[^>]+>|`[^`\n]*`|\]\([^)]*\)",
    re.MULTILINE,
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [
    *(
        page
        for page in (ROOT / "book").glob("*.md")
        if page.stem not in ("changes", "bibliography")
    ),
    ROOT / "README.md",
    *NOTEBOOKS,
    *(ROOT / "book" / "executed").glob("*.ipynb"),
]
WORDS = 2000
APPENDIX_WORDS = 2400
FIGURES = 8
TABLES = 3


def cells(page: Path) -> list[dict]:
    return json.loads(page.read_text(encoding="utf-8"))["cells"]


def figure_of(cell: dict) -> dict | None:
    return cell["metadata"].get("mystnb", {}).get("figure")


def executed(page: Path) -> Path:
    return ROOT / "book" / "executed" / page.name


def displayed(cell: dict, kind: str) -> str:
    outputs = cell.get("outputs", [])
    return "\n".join("".join(output.get("data", {}).get(kind, "")) for output in outputs)


def text(page: Path) -> str:
    """What is read on a page: Markdown, captions, and the Markdown that cells display."""
    if page.suffix != ".ipynb":
        return SILENT.sub(" ", page.read_text(encoding="utf-8"))
    parts = []
    for cell in cells(page):
        if cell["cell_type"] == "markdown":
            parts.append("".join(cell["source"]))
        else:
            parts += [(figure_of(cell) or {}).get("caption", ""), displayed(cell, "text/markdown")]
    return SILENT.sub(" ", "\n\n".join(parts))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_no_page_has_a_forbidden_phrase(page):
    assert [match[0] for match in FORBIDDEN.finditer(text(page))] == []


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_page_takes_ten_minutes(page):
    page_cells = cells(executed(page))
    tables = sum("<table" in displayed(cell, "text/html") for cell in page_cells)
    for cell in page_cells:
        markdown = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        markdown += displayed(cell, "text/markdown")
        tables += len(re.findall(r"^\|[\s:|-]+\|$", markdown, re.MULTILINE))
    words = len(text(executed(page)).split())
    assert words <= (APPENDIX_WORDS if is_appendix(page) else WORDS)
    assert sum(figure_of(cell) is not None for cell in page_cells) <= FIGURES
    assert tables <= TABLES


#: an expression that is filled in when the page is executed
FILLED = re.compile(r"\{\{ .+? \}\}")


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_chapter_takes_numbers_from_results(page):
    """In its sentences; in the executed page all of them are filled in."""
    assert is_appendix(page) or any(FILLED.search("".join(cell["source"])) for cell in cells(page))
    assert not any(FILLED.search("".join(cell["source"])) for cell in cells(executed(page)))
