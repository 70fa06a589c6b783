"""Pages that a reader with ten minutes can read: the prose rules, the sizes of pages, and numbers
from results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from companion.press.edition import is_appendix
from tests.prose import ROOT, Sentence, of_page, pages, plain, words

#: sentences that may break a rule; at most ten
EXCEPTIONS: tuple[str, ...] = ()
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WORDS, FIGURES, TABLES, CAPTION = 2000, 8, 3, 40
APPENDIX_WORDS = 2400


def executed(page: Path) -> Path:
    return ROOT / "book" / "executed" / page.name


def cells(page: Path) -> list[dict]:
    return json.loads(page.read_text(encoding="utf-8"))["cells"]


def figure_of(cell: dict) -> dict | None:
    return cell["metadata"].get("mystnb", {}).get("figure")


@pytest.mark.parametrize("page", pages(), ids=lambda page: f"{page.parent.name}/{page.name}")
def test_every_sentence_keeps_the_rules(page):
    broken = [
        (each.faults(), each.text)
        for each in of_page(page)
        if each.faults() and each.text not in EXCEPTIONS
    ]
    assert broken == []


def test_few_exceptions_and_all_of_them_needed():
    assert len(EXCEPTIONS) <= 10
    told = {each.text for page in pages() for each in of_page(page)}
    assert all(each in told and Sentence(each, "").faults() for each in EXCEPTIONS)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Of 100 images 96 come out, 2 by chance.", "3 numbers"),
        ("It has 4.5e-06, .5 and 1,000 of them.", "3 numbers"),
        ("It is not so that nobody can.", "2 negations"),
        ("It doesn't, and none does.", "2 negations"),
        ("Mixtures are what costs nothing.", "banned: what costs nothing"),
        ("It is nearer than the one that we saw.", "banned: the one that"),
        ("An earlier edition said so.", "history: earlier edition"),
        ("It is of ab45374.", "history: ab45374"),
    ],
)
def test_a_fault_is_seen(text, fault):
    assert fault in Sentence(text, "").faults()


@pytest.mark.parametrize(
    "text",
    [
        (
            "In Fig. 2.3 and Table 1 of 2024 (§4.4), 96 of 100 images of CIFAR-10 come out, 32 × 32"
            " pixels each."
        ),
        "Neither chapter 3 nor Eq. (7) says so.",
    ],
)
def test_names_are_no_numbers(text):
    assert Sentence(text, "").faults() == []


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_page_takes_ten_minutes(page):
    """Words of the page as it is read, with captions; figures and tables as it shows them."""
    shown = cells(executed(page))
    html = [
        "".join(out.get("data", {}).get("text/html", ""))
        for each in shown
        for out in each.get("outputs", [])
    ]
    markdown = [each for each in shown if each["cell_type"] == "markdown"]
    told = [
        "".join(out.get("data", {}).get("text/markdown", ""))
        for each in shown
        for out in each.get("outputs", [])
    ]
    told += ["".join(each["source"]) for each in markdown]
    tables = sum("<table" in each for each in html) + sum(
        len(re.findall(r"^\|[\s:|-]+\|$", e, re.M)) for e in told
    )
    assert words(executed(page)) <= (APPENDIX_WORDS if is_appendix(page) else WORDS)
    assert sum(figure_of(each) is not None for each in shown) <= FIGURES
    assert tables <= TABLES


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_result_stands_on_the_first_screen(page):
    """The first figure, or an element tagged "hero", comes before the first section, and under few
    words.
    """
    before = []
    for cell in cells(page):
        if figure_of(cell) or "hero" in cell["metadata"].get("tags", []):
            break
        assert "\n## " not in "\n" + "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            before.append(plain("".join(cell["source"])))
    assert len(" ".join(before).split()) <= 130


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_every_figure_says_what_was_found(page):
    """A caption begins with the finding, in bold, and is short."""
    for caption in (figure["caption"] for cell in cells(page) if (figure := figure_of(cell))):
        assert re.match(r"\*\*[^*]+[.!?]\*\*", caption), caption
        assert len(plain(caption).split()) <= CAPTION, caption


#: an expression that is filled in when the page is executed
FILLED = re.compile(r"\{\{ .+? \}\}")


@pytest.mark.parametrize(
    "page", [page for page in NOTEBOOKS if not is_appendix(page)], ids=lambda page: page.stem
)
def test_a_chapter_takes_numbers_from_results(page):
    """In its sentences; in the executed page all of them are filled in."""
    told = ["".join(cell["source"]) for cell in cells(page) if cell["cell_type"] == "markdown"]
    assert any(FILLED.search(text) for text in told)
    assert not any(FILLED.search("".join(cell["source"])) for cell in cells(executed(page)))
