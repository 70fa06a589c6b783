"""The published edition as one PDF: every page of the table of contents as Chromium prints it, with a bookmark each."""

from __future__ import annotations

import io
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from recon.chapters import ROOT
from recon.errors import ReconError
from recon.press.html import toc_files
from recon.press.publish import render
from recon.store.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page, PdfMargins

LEFT_OUT = ("book/reference",)  # docstrings of every module: nobody reads them on paper
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FOOT = (
    '<div style="font-size: 8px; width: 100%; padding: 0 15mm; display: flex; justify-content: space-between">'
    '<span class="title"></span><span><span class="pageNumber"></span> / <span class="totalPages"></span></span></div>'
)
MARGIN: PdfMargins = {"top": "14mm", "bottom": "16mm", "left": "15mm", "right": "15mm"}
#: what is closed is opened, but for claims, whose cards are for searching; what waits for scrolling is loaded; a page
#: is ready when its formulas and pictures are
READY = """async () => {
  document.querySelectorAll("details:not(.claim)").forEach((each) => (each.open = true));
  const images = [...document.images];
  images.forEach((image) => (image.loading = "eager"));
  await window.MathJax?.startup?.promise;
  await Promise.all(images.map((image) => image.decode().catch(() => null)));
}"""


def write_pdf(root: Path = ROOT) -> Path:
    """build/published/book.pdf, from the HTML of the published edition, which is rendered first; without `LEFT_OUT`.

    ReconError without Chromium, or without Playwright and pypdf, which `make env` installs.
    """
    html, target = render(root), root / "build" / "published" / "book.pdf"
    pages = [html / f"{name}.html" for name in toc_files(root / "_toc.yml") if name not in LEFT_OUT]
    with chromium() as tab, atomic_path(target) as temporary:
        join(pages, temporary, tab)
    return target


def join(pages: list[Path], target: Path, tab: Page) -> None:
    """These HTML pages, printed one after the other in this tab, as one PDF with bookmarks by their titles."""
    try:
        from pypdf import PdfWriter
    except ImportError as error:
        raise ReconError("a PDF needs pypdf: run make env") from error
    writer = PdfWriter()
    for page in tqdm(pages, "pages", disable=None):
        tab.goto(page.resolve().as_uri())
        tab.emulate_media(media="print", color_scheme="light")
        tab.evaluate(READY)
        printed = tab.pdf(
            format="A4",
            margin=MARGIN,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOT,
            print_background=True,
        )
        writer.append(io.BytesIO(printed), outline_item=tab.title().split(" — ")[0], import_outline=False)
    writer.compress_identical_objects()
    writer.write(target)


@contextmanager
def chromium() -> Iterator[Page]:
    """A tab of the Chromium on the PATH; ReconError without it, or without Playwright."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise ReconError("a PDF needs Chromium on the PATH: install your system's package of that name")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise ReconError("a PDF needs Playwright: run make env") from error
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


__all__ = ["chromium", "join", "write_pdf"]
