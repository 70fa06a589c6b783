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
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}


# ------------------------------------------------------------------------------------- read as HTML


class Read(HTMLParser):
    """Identifiers, references to files, images of the article and the hrefs of the download button
    of one page.
    """

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.references, self.images, self.sources, self.inside = set(), [], [], [], False
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        a = dict(attributes)
        self.inside = self.inside or tag == "article"
        self.ids |= {a[key] for key in ("id", "name") if a.get(key)}
        self.references += [a[key] for key in ("href", "src") if a.get(key)]
        if tag == "img" and self.inside:
            self.images.append(a)
        if "btn-download-source-button" in (a.get("class") or ""):
            self.sources.append(a["href"])

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


def test_this_file_sees_broken_links(tmp_path):
    page = tmp_path / "a.html"
    page.write_text(
        '<article><img src="no.png"></article><a id="x" href="#y"></a><a href="a.html#x"></a><img'
        ' src="b">'
    )
    assert (
        broken(page, Read(page).references) == ["no.png", "#y", "b"] and len(Read(page).images) == 1
    )


# ----------------------------------------------------------------------------------- in the browser


#: markup that reached a reader: rows of tables, formulas, roles, texts that nobody filled in
RAW = re.compile(
    r"\|\s*:?[-–—]+\s*\||\$[^\s$][^$\n]*\$|\\\(|\{[a-z:]+\}`|\*\*[^*\n]+\*\*"
    r"|(?<![\\_^}\w])\{['‘\"]?[a-z_][^{}\\\n:]*(?::[^{}\s][^{}\n]*)?\}"
)
PROSE = """() => { const all = document.querySelector('.bd-article').cloneNode(true);
  all.querySelectorAll('pre, code, .math, script, style').forEach((each) => each.remove());
  return all.textContent; }"""
#: what is to be seen but for code, which may show how an element is made
SHOWN = """() => { const code = [...document.querySelectorAll('.bd-article :is(pre, code)')];
  code.forEach((each) => (each.style.display = 'none'));
  const text = document.querySelector('.bd-article').innerText;
  code.forEach((each) => (each.style.display = ''));
  return text; }"""
#: what only a hand on the page can do: on paper nothing asks for it, and no control is left over
ASKS = re.compile(
    r"\b(?:drag|move (?:a|the) slider|choose one|click|press|download the notebook)\b[^.]*\.", re.I
)
CONTROLS = (
    "input:visible, label:visible, select:visible, [role=slider]:visible,"
    " button:visible:not(:has(img))"
)
#: what a page asked for, also what the browser had kept from another page
ASKED = """() => ['navigation', 'resource']
  .flatMap((type) => performance.getEntriesByType(type)).map((each) => each.name)"""
#: bytes of a page without its pictures
LIGHT = 1_500_000


@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_a_page_is_clean_light_accessible_and_fits_paper(tab, site, name):
    page = tab.open(f"{name}.html")
    assert tab.complaints == [] and page.locator("mjx-merror").count() == 0
    if name in PAGES:
        assert RAW.findall(page.evaluate(PROSE)) == []
        too_much = overweight(sizes_of(page.evaluate(ASKED), site))
        assert too_much == []
        # which name the package `press` in their sentences
        if not name.startswith("book/reference"):
            assert_nothing_asks_on_paper(page)
    plain = "img => !img.closest('.zoom, .recon-element, .sd-card')"
    assert (
        page.locator(".bd-article img").evaluate_all(
            f"all => all.filter({plain}).map(img => img.alt)"
        )
        == []
    )
    assert tab.violations() == []


def sizes_of(asked: list[str], site: Path) -> dict[str, int]:
    """Bytes of each file, which are sent as they lie on the disk."""
    paths = {
        url: site / unquote(urlsplit(url).path).lstrip("/")
        for url in asked
        if url.startswith("http")
    }
    return {url: path.stat().st_size for url, path in paths.items() if path.is_file()}


def overweight(sizes: dict[str, int]) -> list[tuple[str, int]]:
    """All bytes and the five heaviest files of a page whose bytes are too many, or so few that it
    was not served.
    """
    total = sum(size for url, size in sizes.items() if not url.endswith((".png", ".svg")))
    heaviest = sorted(sizes.items(), key=lambda each: -each[1])[:5]
    return [] if 300_000 < total < LIGHT else [("all", total), *heaviest]


def assert_nothing_asks_on_paper(page) -> None:
    page.emulate_media(media="print")
    article = page.locator(".bd-article")
    assert ASKS.findall(page.evaluate(SHOWN)) == []
    assert (
        article.locator(CONTROLS).evaluate_all(
            "all => all.map((each) => each.outerHTML.slice(0, 80))"
        )
        == []
    )
    page.emulate_media(media="screen")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", [PAGES[0], DECORECO])
def test_dark_mode_is_accessible(tab, name, size):
    page = tab.open(f"{name}.html", size, "dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert tab.violations() == []


def test_claims_are_filtered_by_chip_and_by_word(tab):
    page = tab.open("book/claims.html")
    cards, said = page.locator("details.claim:visible"), page.locator(".claims-bar [role=status]")
    everything = cards.count()
    assert everything > 50 and said.inner_text() == f"{everything} of {everything} claims"
    chip = page.get_by_role("button", name="not reproduced")
    chip.focus()
    page.keyboard.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true" and 0 < cards.count() < everything
    assert chip.inner_text() == f"not reproduced {cards.count()}"
    verdicts = page.locator("details.claim:visible summary").evaluate_all(
        # a second chip may say on which processor
        "all => all.map(each => each.querySelector('.chip').innerText)"
    )
    assert set(verdicts) == {"not reproduced"}
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


# -------------------------------------------------------------------------------- elements by touch

#: pages of the published edition with something to play with, and how many there are
PLAYED = {
    "01-linear": 1,
    "05-landscape": 1,
    "06-separation": 2,
    "07-adversary": 1,
    "10-leakage-rank": 1,
}
STATE = """e => [e.innerText, ...[...e.querySelectorAll('*')].map((x) => [x.getAttribute('style'), x.value,
  x.getAttribute('aria-pressed'), x.getAttribute('class'), x.toDataURL?.()].join())].join()"""  # noqa: E501
FINGER = ("input[type=range]:visible", "canvas:visible, button:visible, [role=slider]:visible")


@pytest.mark.parametrize("name", PLAYED)
def test_every_element_answers_to_a_finger_and_is_below_a_megabyte(browser, tab, name):
    with browser.new_context(has_touch=True, viewport=PHONE, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(f"{tab.base}book/executed/{name}.html")
        elements = [
            each
            for each in page.locator(".recon-element").all()
            if each.locator(", ".join(FINGER)).count()
        ]
        assert len(elements) >= PLAYED[name]
        for each in elements:
            assert each.evaluate("e => e.outerHTML.length") < 1_000_000
            before = each.evaluate(STATE)
            control = next(found for kind in FINGER if (found := each.locator(kind)).count()).first
            control.scroll_into_view_if_needed()
            box = control.bounding_box()
            page.touchscreen.tap(box["x"] + 0.8 * box["width"], box["y"] + 0.5 * box["height"])
            page.wait_for_timeout(200)
            assert each.evaluate(STATE) != before, each.get_attribute("id")
