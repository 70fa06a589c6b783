"""Pages that a reader with ten minutes can read: what prose.yml lists, the sizes of pages, and
numbers from results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from companion.chapters import ROOT

STYLE = yaml.safe_load(Path(__file__).with_name("prose.yml").read_text("utf-8"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [*(ROOT / "book").glob("*.md"), ROOT / "README.md", *NOTEBOOKS]
PAGES = [page for page in PAGES if page.stem not in STYLE["excluded"]]
HEADING = re.compile(r"^#+ +(?:\(\w\) +)?(.*)$", re.MULTILINE)
#: an expression that is filled in when the page is executed
FILLED = re.compile(r"\{\{.+?\}\}")


def cells(page):
    """Of a chapter; other pages have none."""
    return json.loads(page.read_text("utf-8"))["cells"] if page.suffix == ".ipynb" else []


def figure_of(cell):
    return cell["metadata"].get("mystnb", {}).get("figure", {})


def displayed(cell, kind):
    outputs = cell.get("outputs", [])
    return "\n".join("".join(output.get("data", {}).get(kind, "")) for output in outputs)


def text(page):
    """What is read on a page: Markdown, captions, and the Markdown that cells display."""
    return "\n\n".join(
        "".join(cell["source"])
        if cell["cell_type"] == "markdown"
        else figure_of(cell).get("caption", "") + "\n\n" + displayed(cell, "text/markdown")
        for cell in cells(page)
    ) or page.read_text("utf-8")


def without(kind, words):
    """Such as code and tables, which are no prose, or brackets, whose numbers do not count."""
    return re.sub("|".join(STYLE[kind]), " ", words, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_says_what_the_list_forbids(page):
    words = FILLED.sub("7", without("silent", text(page)))
    body = HEADING.sub("", words)
    sentences = re.split("|".join(STYLE["ends"]), without("uncounted", body))
    parts = {"text": [body], "headings": HEADING.findall(words), "sentences": sentences}
    parts["captions"] = [figure_of(cell).get("caption", "**") for cell in cells(page)]
    broken = [
        f"{match[0]}: {rule['say']}"
        for rule in STYLE["rules"]
        for part in parts[rule["in"]]
        for match in re.finditer(rule["pattern"], part.strip(), re.IGNORECASE)
    ]
    assert not broken, "\n".join(broken)


def test_links_to_elements_name_the_page_that_makes_them():
    lesson = (ROOT / "book" / "teach.md").read_text("utf-8")
    links = re.findall(r"/([\w-]+)\.html#recon-(\w+)", lesson)
    for stem, name in links:
        assert f"HTML({name}(" in (ROOT / "notebooks" / f"{stem}.ipynb").read_text("utf-8")
    assert len({name for _, name in links}) == 8


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_page_takes_ten_minutes_and_its_numbers_from_results(page):
    """A chapter in its sentences; in the executed page all of them are filled in."""
    here, appendix = ROOT / "book" / "executed" / page.name, not page.stem[0].isdigit()
    words, page_cells = text(here), cells(here)
    tables = re.findall(r"^\|[\s:|-]+\|$", words, re.MULTILINE)
    tables += [cell for cell in page_cells if "<table" in displayed(cell, "text/html")]
    length = len(HEADING.sub("", without("silent", words)).split())
    assert length <= (2400 if appendix else 2000)
    assert len([*filter(figure_of, page_cells)]) <= 8 and len(tables) <= 3
    assert (appendix or FILLED.search(text(page))) and not FILLED.search(words)
