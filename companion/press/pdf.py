"""The core of the published edition as one PDF: its pages as Chromium prints them, with a bookmark each."""

from __future__ import annotations

import io
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from companion.chapters import ROOT
from companion.press.edition import is_appendix
from companion.press.html import toc_files
from companion.press.publish import render
from recon.errors import ReconError
from recon.store.browser import find_browser
from recon.store.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page, PdfMargins
    from pypdf import PdfWriter

#: beside the chapters, what a reader of paper wants
BESIDE = ("book/index", "book/publish", "book/bibliography")
FOOT = (
    '<div style="font-size: 8px; width: 100%; padding: 0 15mm; display: flex; justify-content: space-between">'
    '<span class="title"></span><span><span class="pageNumber"></span> / <span class="totalPages"></span></span></div>'
)
MARGIN: PdfMargins = {"top": "14mm", "bottom": "16mm", "left": "15mm", "right": "15mm"}
SCALE = 0.7  # of a page of the screen
#: what is closed is opened, but for claims, whose cards are for searching, and for solutions and imports; what waits
#: for scrolling is loaded; ids get the page's own prefix, since those of all pages come together; a page is ready when
#: its formulas and pictures are
READY = """async (prefix) => {
  document.querySelectorAll("[id]").forEach((each) => (each.id = prefix + each.id));
  document.querySelectorAll('a[href^="#"]').forEach((each) =>
    each.setAttribute("href", "#" + prefix + each.getAttribute("href").slice(1)));
  const folded = /^\\s*(Solution|Imports|Code of)/;
  document.querySelectorAll("details:not(.claim)").forEach((each) =>
    (each.open = !folded.test(each.querySelector("summary")?.innerText ?? "")));
  const images = [...document.images];
  images.forEach((image) => (image.loading = "eager"));
  await window.MathJax?.startup?.promise;
  await Promise.all(images.map((image) => image.decode().catch(() => null)));
  await Promise.all(document.getAnimations().map((each) => each.finished.catch(() => null)));
}"""


def write_pdf(root: Path = ROOT) -> Path:
    """build/published/book.pdf, from the HTML of the published edition, which is rendered first: the chapters and
    `BESIDE`, without appendices.

    ReconError without Chromium, or without Playwright and pypdf, which `make env` installs.
    """
    html, target = render(root), root / "build" / "published" / "book.pdf"
    pages = [
        html / f"{name}.html" for name in toc_files(root / "_toc.yml") if name in BESIDE or not is_appendix(Path(name))
    ]
    with chromium() as tab, atomic_path(target) as temporary:
        join(pages, temporary, tab)
    return target


def join(pages: list[Path], target: Path, tab: Page) -> None:
    """These HTML pages, printed one after the other in this tab, as one PDF with bookmarks by their titles."""
    try:
        from pypdf import PdfWriter
    except ImportError as error:
        raise ReconError("a PDF needs pypdf: run make env") from error
    writer, first = PdfWriter(), {}
    for number, page in enumerate(tqdm(pages, "pages", disable=None)):
        first[page.resolve().as_uri()] = (f"p{number}-", len(writer.pages))
        tab.goto(page.resolve().as_uri())
        tab.emulate_media(media="print", color_scheme="light", reduced_motion="reduce")
        tab.evaluate(READY, f"p{number}-")
        printed = tab.pdf(
            format="A4",
            margin=MARGIN,
            scale=SCALE,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOT,
            print_background=True,
        )
        writer.append(io.BytesIO(printed), outline_item=tab.title().split(" — ")[0], import_outline=False)
    link(writer, first)
    writer.compress_identical_objects()
    writer.write(target)


def link(writer: PdfWriter, first: dict[str, tuple[str, int]]) -> None:
    """Links between pages, which lead to files of this machine, lead to their place in this file; where a page is not
    in it, nowhere.

    first: address of a page -> prefix of its ids, and its first sheet.
    """
    from pypdf.generic import ArrayObject, NameObject

    named = set(writer.named_destinations)
    for sheet in writer.pages:
        for annotation in [each.get_object() for each in sheet.get("/Annots", [])]:
            address, _, anchor = str(annotation.get("/A", {}).get("/URI", "")).partition("#")
            if not address.startswith("file:"):
                continue
            if address not in first:
                del annotation["/A"]
                continue
            prefix, start = first[address]
            del annotation["/A"]
            place = f"/{prefix}{anchor}"
            sheet_there = writer.pages[start].indirect_reference
            annotation[NameObject("/Dest")] = (
                NameObject(place) if place in named else ArrayObject([sheet_there, NameObject("/Fit")])
            )


@contextmanager
def chromium() -> Iterator[Page]:
    """A tab of the Chromium on the PATH; ReconError without it, or without Playwright."""
    executable = find_browser()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise ReconError("a PDF needs Playwright: run make env") from error
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()
