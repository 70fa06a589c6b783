"""The published edition as a reader meets it: built once, served locally, read as HTML and used in
a real browser.

What needs a browser is skipped without Playwright, axe or a Chromium on the PATH; none is ever
downloaded.
"""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote_plus, unquote, urlsplit

import pytest

from companion.press.html import toc_files

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = toc_files(ROOT / "_toc.yml")
DECORECO = "book/executed/04-decoreco"


# ------------------------------------------------------------------------------------- read as HTML


class Read(HTMLParser):
    """Identifiers, references to files, and images of the article of one page."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.references, self.images, self.inside = set(), [], [], False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        a = dict(attributes)
        self.inside = self.inside or tag == "article"
        self.ids |= {a[key] for key in ("id", "name") if a.get(key)}
        self.references += [a[key] for key in ("href", "src") if a.get(key)]
        if tag == "img" and self.inside:
            self.images.append(a)

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "article"


@functools.cache
def read(path: Path) -> Read:
    return Read(path)


def broken(page: Path, references: list[str]) -> list[str]:
    """Those of a page's references within the site that lead to no file, or to no place in one."""
    found = []
    for reference in references:
        url = urlsplit(reference)
        if url.scheme or url.netloc:
            continue
        target = (page.parent / unquote(url.path)).resolve() if url.path else page
        place = unquote(url.fragment)
        if not target.is_file() or (
            place and target.suffix == ".html" and place not in read(target).ids
        ):
            found.append(reference)
    return found


@pytest.mark.parametrize("name", [*PAGES, "search", "genindex"])
def test_links_and_images_lead_somewhere(site, name):
    path = site / f"{name}.html"
    page = read(path)
    assert broken(path, page.references) == []
    assert [
        image["src"][:80] for image in page.images if not (image.get("alt") or "").strip()
    ] == []


# ----------------------------------------------------------------------------------- in the browser


#: markup that reached a reader: rows of tables, formulas, roles, texts that nobody filled in
RAW = re.compile(
    r"\|\s*:?[-–—]+\s*\||\$[^\s$][^$\n]*\$|\\\(|\{[a-z:]+\}`|\*\*[^*\n]+\*\*"
    r"|(?<![\\_^}\w])\{['‘\"]?[a-z_][^{}\\\n:]*(?::[^{}\s][^{}\n]*)?\}"
)
PROSE = """() => { const all = document.querySelector('.bd-article').cloneNode(true);
  all.querySelectorAll('pre, code, .math, script, style').forEach((each) => each.remove());
  return all.textContent; }"""


@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_a_page_is_clean_and_accessible(tab, name):
    page = tab.open(f"{name}.html")
    assert tab.complaints == [] and page.locator("mjx-merror").count() == 0
    if name in PAGES:
        assert RAW.findall(page.evaluate(PROSE)) == []
    assert tab.violations() == []


@pytest.mark.parametrize("name", [PAGES[0], DECORECO])
def test_dark_mode_is_accessible(tab, name):
    page = tab.open(f"{name}.html", scheme="dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert tab.violations() == []


def test_claims_are_filtered_by_chip_and_by_word(tab):
    page = tab.open("book/claims.html")
    cards = page.locator("details.claim:visible")
    everything = cards.count()
    assert everything > 50
    chip = page.get_by_role("button", name="fails")
    chip.focus()
    page.keyboard.press("Enter")
    verdicts = page.locator("details.claim:visible summary").evaluate_all(
        "all => all.map(claim => claim.querySelector('.chip').innerText)"
    )
    assert set(verdicts) == {"fails"} and 0 < cards.count() < everything
    field = page.get_by_role("searchbox", name="Search the claims")
    field.fill("c(m) noise")
    assert page.locator("details.claim:visible").evaluate_all("all => all.map(e => e.id)") == [
        "claim-defences-metric"
    ]
    chip.click()
    field.fill("")
    assert cards.count() == everything and tab.violations() == []


def results(tab, query: str):
    page = tab.open(f"search.html?q={quote_plus(query)}")
    page.locator("#search-results [role=status]").wait_for()
    return page.locator("#search-results li > a"), page.locator("#search-results li > p")


def test_search_finds_chapters(tab):
    found, _ = results(tab, "bilevel")
    assert found.and_(tab.page.locator('[href*="03-bilevel"]')).count() > 0
    assert tab.complaints == [] and tab.violations() == []
    found, _ = results(tab, "no such words here")
    assert found.count() == 0 and "No section" in tab.page.locator("#search-results").inner_text()
