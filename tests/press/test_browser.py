"""The published edition as a reader meets it: built once, served locally, read as HTML and used in a real browser.

What needs a browser is skipped without Playwright, axe or a Chromium on the PATH; none is ever downloaded.
"""

from __future__ import annotations

import functools
import os
import shutil
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch

from recon.chapters.decoreco_tuned.compare import Pair, compare_html
from recon.chapters.landscape.walk import walk_html
from recon.press.html import build_html, toc_files

fcntl = pytest.importorskip("fcntl", reason="the shared build needs POSIX file locks")

ROOT = Path(__file__).resolve().parents[2]
PAGES = toc_files(ROOT / "_toc.yml")
QUIZ = "book/executed/09-decoreco-tuned"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}
#: preload would fetch the style sheets again, and their relative imports from the wrong folder
AXE = "within => axe.run(within ?? document, {resultTypes: ['violations'], preload: false})"


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The published edition's HTML, made by whichever of xdist's workers comes first: they share a parent folder."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    html = shared / "published" / "html"
    html.parent.mkdir(exist_ok=True)
    with open(html.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not html.exists():
            build_html(ROOT, ROOT / "book" / "executed", html, html.parent / "html.log")
    return html


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections: a page asks for forty files

    def log_message(self, *_):
        pass


class Tab:
    """One tab of one browser on the served site; what goes wrong on a page is collected in `complaints`."""

    def __init__(self, page, base: str, axe: str):
        self.page, self.base, self.axe, self.complaints = page, base, axe, []
        page.set_default_timeout(20_000)
        page.on("console", lambda m: self.complaints.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        page.on("requestfailed", lambda r: self.complaints.append(f"failed: {r.url}"))
        page.on("response", lambda r: self.complaints.append(f"{r.status}: {r.url}") if r.status >= 400 else None)
        page.on("request", self.outside)

    def outside(self, request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:", "file:")):
            self.complaints.append(f"outside: {request.url}")

    def open(self, name: str, size: dict = WIDE, scheme: str = "light"):
        """The page, loaded and typeset."""
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.complaints.clear()
        response = self.page.goto(f"{self.base}{name}")
        assert response.ok, f"{response.status}: {name}"
        self.page.evaluate("window.MathJax?.startup?.promise")
        return self.page

    def violations(self, within: str | None = None) -> list[str]:
        """What axe-core finds serious or critical, on the page or in one element; one line for each rule and place."""
        self.page.evaluate(self.axe)
        found = [v for v in self.page.evaluate(AXE, within)["violations"] if v["impact"] in ("serious", "critical")]
        return [f"{v['id']}: {node['target']} {node['failureSummary']}" for v in found for node in v["nodes"]]

    def too_wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture(scope="session")
def browser():
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make env")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def tab(browser, site):
    base = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed: make env")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Tab(browser.new_page(), f"http://127.0.0.1:{server.server_port}/", base.AXE_SCRIPT)
    server.shutdown()


# ------------------------------------------------------------------------------------------- read as HTML


class Read(HTMLParser):
    """Identifiers, references to files, images of the article and the hrefs of the download button of one page."""

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
        if not target.is_file() or (place and target.suffix == ".html" and place not in read(target).ids):
            found.append(reference)
    return found


@pytest.mark.parametrize("name", [*PAGES, "search", "genindex"])
def test_links_and_images_lead_somewhere(site, name):
    path = site / f"{name}.html"
    page = read(path)
    assert broken(path, page.references) == []
    assert [image["src"][:80] for image in page.images if not (image.get("alt") or "").strip()] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_offers_its_source(site, name):
    path = site / f"{name}.html"
    (source,) = read(path).sources
    assert broken(path, [source]) == [] and Path(source).suffix in (".ipynb", ".md")


def test_this_file_sees_broken_links(tmp_path):
    page = tmp_path / "a.html"
    page.write_text('<article><img src="no.png"></article><a id="x" href="#y"></a><a href="a.html#x"></a><img src="b">')
    assert broken(page, Read(page).references) == ["no.png", "#y", "b"] and len(Read(page).images) == 1


# ------------------------------------------------------------------------------------------- in the browser


@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_a_page_loads_cleanly_is_accessible_and_fits_a_phone(tab, name):
    page = tab.open(f"{name}.html")
    assert tab.complaints == []
    assert tab.violations() == []
    plain = "img => !img.closest('.zoom, .recon-element, .sd-card')"
    assert page.locator(".bd-article img").evaluate_all(f"all => all.filter({plain}).map(img => img.alt)") == []
    page.set_viewport_size(PHONE)
    assert tab.too_wide() <= 0


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", [PAGES[0], QUIZ])
def test_dark_mode_is_accessible(tab, name, size):
    page = tab.open(f"{name}.html", size, "dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert tab.violations() == []


def test_claims_are_filtered_by_chip_and_by_word(tab):
    page = tab.open("book/claims.html")
    cards, said = page.locator("details.claim:visible"), page.locator(".claims-bar [role=status]")
    everything = cards.count()
    assert everything > 100 and said.inner_text() == f"{everything} of {everything} claims"
    chip = page.get_by_role("button", name="not reproduced")
    chip.focus()
    page.keyboard.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true" and 0 < cards.count() < everything
    assert chip.inner_text() == f"not reproduced {cards.count()}"
    assert {text for text in page.locator("details.claim:visible summary .chip").all_inner_texts()} == {
        "not reproduced"
    }
    field = page.get_by_role("searchbox", name="Search the claims")
    field.fill("c(m) noise")
    assert page.locator("details.claim:visible").evaluate_all("all => all.map(e => e.id)") == ["claim-defences-metric"]
    chip.click()
    field.fill("")
    assert cards.count() == everything and tab.violations() == []


def test_a_link_to_a_claim_opens_it_and_its_card_fits_a_phone(tab):
    tab.open("book/status.html")  # a link within the page would not load it
    page = tab.open("book/claims.html#claim-hidden-distance-random")
    card = page.locator("#claim-hidden-distance-random")
    assert card.get_attribute("open") is not None and card.get_by_text("Table 1", exact=False).first.is_visible()
    page.locator("table a[href='#claim-defences-metric']").first.click()
    page.wait_for_function("document.querySelector('#claim-defences-metric').open")
    page.set_viewport_size(PHONE)
    page.evaluate("document.querySelectorAll('details.claim').forEach((each) => (each.open = true))")
    assert (
        tab.too_wide() <= 0
        and page.locator(".claim table").evaluate_all(
            "all => all.filter((t) => t.scrollWidth > t.clientWidth + 1).length"
        )
        == 0
    )
    assert tab.violations() == []


def test_the_title_page_redirects_to_the_book(tab):
    tab.page.goto(tab.base)
    tab.page.wait_for_url(f"{tab.base}book/index.html")


def test_search_finds_chapters(tab):
    page = tab.open("search.html?q=bilevel")
    page.locator('#search-results li > a[href*="03-bilevel-affine"]').first.wait_for()  # results come one by one
    assert tab.complaints == []


def quiz(tab):
    page = tab.open(f"{QUIZ}.html")
    cards = page.locator(".recon-quiz .card")
    return page, cards, cards.evaluate_all("all => all.findIndex(card => card.dataset.odd === 'true')")


def answered(page) -> tuple[str, int, int]:
    """The verdict, how many answers are open, and how many cards are pressed."""
    answers, pressed = page.locator(".recon-quiz .answer:visible"), page.locator(".recon-quiz [aria-pressed=true]")
    return page.locator(".recon-quiz .verdict").inner_text(), answers.count(), pressed.count()


def test_quiz_by_mouse(tab):
    page, cards, odd = quiz(tab)
    for card, start in ((odd, "Right"), ((odd + 1) % cards.count(), "No")):
        cards.nth(card).click()
        verdict, answers, pressed = answered(page)
        assert verdict.startswith(f"{start}: number {odd + 1} has no training image")
        assert (answers, pressed) == (cards.count(), 1)
        assert tab.violations(".recon-quiz") == []
        page.locator(".recon-quiz .again").click()
        assert answered(page) == ("", 0, 0)


def test_quiz_by_keyboard(tab):
    page, cards, odd = quiz(tab)
    cards.first.focus()
    for _ in range(odd):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert answered(page)[0].startswith("Right") and answered(page)[1:] == (cards.count(), 1)
    for _ in range(cards.count() - odd):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert answered(page) == ("", 0, 0)
    assert cards.first.evaluate("card => card === document.activeElement")


def test_figures_open_and_close_by_mouse(tab):
    page = tab.open(f"{QUIZ}.html")
    figure, dialog = page.locator(".zoom").first, page.locator("dialog.zoom-view")
    for close in (dialog.locator("img"), dialog.get_by_role("button", name="Close")):
        figure.click()
        assert dialog.locator("img").get_attribute("src") == figure.locator("img").evaluate("img => img.src")
        small, large = (image.bounding_box()["width"] for image in (figure.locator("img"), dialog.locator("img")))
        assert small < large <= WIDE["width"]
        close.click()
        assert not dialog.is_visible()
        assert figure.evaluate("button => button === document.activeElement")


def test_figures_are_larger_on_a_phone_too(tab):
    page = tab.open(f"{QUIZ}.html", PHONE)
    page.locator(".zoom").first.click()
    assert page.locator(".zoom-view img").bounding_box()["width"] > 2 * PHONE["width"]
    assert tab.too_wide() <= 0 and tab.violations(".zoom-view") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_open_and_close_by_keyboard(tab, scheme):
    page = tab.open(f"{QUIZ}.html", scheme=scheme)
    figure, dialog = page.locator(".zoom").nth(1), page.locator("dialog.zoom-view")
    assert figure.get_attribute("aria-label") == f"Enlarge: {figure.locator('img').get_attribute('alt')}"
    figure.focus()
    for opens, closes in (("Enter", "Escape"), ("Space", "Enter")):  # the focus is on Close
        page.keyboard.press(opens)
        assert dialog.is_visible() and tab.violations(".zoom-view") == []
        page.keyboard.press(closes)
        assert not dialog.is_visible()
        assert figure.evaluate("button => button === document.activeElement")


# ------------------------------------------------------------------------------- the slider, on a page of its own


@pytest.fixture
def slider(tmp_path) -> str:
    images = torch.rand(4, 3072, generator=torch.Generator().manual_seed(0))
    fragment = compare_html([Pair(images[0], images[1], 0.9, 1), Pair(images[2], images[3], 0.3, 2)], note="A note.")
    path = tmp_path / "slider.html"
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Slider</title><main><h1>Slider</h1>{fragment}</main></html>"
    )
    return path.as_uri()


def cut(page) -> str:
    return page.locator(".over").first.evaluate("img => getComputedStyle(img).clipPath")


def test_slider_by_mouse_and_keyboard(tab, slider):
    page, tab.complaints = tab.page, []
    page.set_viewport_size(PHONE)
    page.goto(slider)
    knob = page.get_by_role("slider").first
    assert (knob.input_value(), cut(page)) == ("50", "inset(0px 50% 0px 0px)")
    assert tab.violations() == [] and tab.too_wide() <= 0
    box = knob.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2)
    page.mouse.up()
    value = int(knob.input_value())
    assert 70 <= value <= 90 and cut(page) == f"inset(0px {100 - value}% 0px 0px)"
    page.keyboard.press("ArrowLeft")
    assert int(knob.input_value()) == value - 5 and cut(page) == f"inset(0px {105 - value}% 0px 0px)"
    for key, end in (("Home", 0), ("End", 100)):
        page.keyboard.press(key)
        assert knob.get_attribute("aria-valuetext") == f"{end} % reconstruction"
    assert page.get_by_role("slider").nth(1).input_value() == "50" and tab.complaints == []


def test_slider_without_scripts_shows_both_images(browser, slider):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(slider)
        left, right = (page.locator(f"{which} >> nth=0").bounding_box() for which in (".over", ".under"))
        assert left["x"] + left["width"] <= right["x"] and left["y"] == right["y"]
        assert page.locator("input:visible").count() == 0


# ---------------------------------------------------------------------- the walk of chapter 13, on a page of its own


@pytest.fixture
def walk(tmp_path) -> str:
    pictures = torch.rand(5, 3, 3072, generator=torch.Generator().manual_seed(0))
    path = tmp_path / "walk.html"
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Walk</title><main><h1>Walk</h1>{walk_html(pictures, [1e-14] * 5, 40)}</main></html>"
    )
    return path.as_uri()


def test_walk_by_keyboard(browser, walk):
    with browser.new_context(viewport=PHONE) as context:
        page = context.new_page()
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(walk)
        knob, tile = page.get_by_role("slider"), page.locator(".tile").nth(1)
        place = "tile => getComputedStyle(tile).backgroundPosition"
        assert page.locator(".strip").is_hidden() and tile.evaluate(place) == "0px -80px"
        knob.press("ArrowRight")
        knob.press("ArrowRight")
        assert knob.input_value() == "2" and tile.evaluate(place) == "-160px -80px"
        said = "100% of the way from the training set"
        assert knob.get_attribute("aria-valuetext").startswith(said)
        assert page.locator(".said").inner_text().startswith(said)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def test_walk_without_scripts_shows_the_strip(browser, walk):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(walk)
        assert page.locator(".strip").is_visible() and page.locator("input:visible").count() == 0
        assert page.locator(".tile:visible").count() == 0
