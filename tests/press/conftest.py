"""A browser, and the published edition as it is served to one; see test_browser.py.

What needs a browser is skipped without Playwright, axe or a Chromium on the PATH; none is ever
downloaded.
"""

from __future__ import annotations

import functools
import os
import shutil
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from companion.press.html import build_html

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 1200  # for the build of the book, on a machine five times slower than a quiet one
WIDE = {"width": 1280, "height": 900}
#: preload would fetch the style sheets again, and their relative imports from the wrong folder
AXE = "axe.run(document, {resultTypes: ['violations'], preload: false})"

#: takes out of a page what is like something before it: the same elements with the same classes and
#: styles, in the same surroundings, on as odd a row.  axe looks at every letter of a page
#: otherwise, and a hundred rows take it a minute.
ALIKE = """() => {
  scrollTo(0, 0);
  const seen = new Set(), places = 'details, .admonition, .sd-card, .cell_output, .claims-bar, figure, aside';
  const sign = (e) => [e.tagName, e.getAttribute('class'), e.getAttribute('style'), e.closest(places)?.className,
    (e.closest('tr')?.rowIndex ?? 0) % 2].join();
  for (const kind of ['section', 'mjx-container', 'details', 'pre', 'tr', 'dl', 'li', 'p'])
    for (const each of document.querySelectorAll('.bd-article ' + kind)) {
      if (!each.isConnected) continue;
      const within = kind === 'mjx-container' ? [] : [...each.querySelectorAll('*:not(mjx-container *)')];
      const signs = [each, ...within].map(sign);
      if (signs.every((one) => seen.has(kind + one))) each.remove();
      else signs.forEach((one) => seen.add(kind + one));
    }
}"""  # noqa: E501


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The published edition's HTML: as `make test` builds it at this moment, or made here."""
    if built := os.environ.get("RECON_SITE_BUILT"):
        assert exit_code(Path(built)) == 0, "the strict build of the book failed"
    if "RECON_SITE" in os.environ:
        return Path(os.environ["RECON_SITE"])
    html = tmp_path_factory.mktemp("published") / "html"
    return build_html(ROOT, ROOT / "book" / "executed", html, html.parent / "html.log")


def exit_code(path: Path) -> int:
    """Of the build, when it has ended."""
    for _ in range(WAIT_S):
        if path.is_file() and (text := path.read_text().strip()):
            return int(text)
        time.sleep(1)
    raise TimeoutError(f"the book was not built within {WAIT_S} seconds")


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections: a page asks for forty files

    def log_message(self, *_):
        pass


class Tab:
    """One tab of one browser on the served site; what goes wrong on a page is collected in
    `complaints`.
    """

    def __init__(self, page, base: str, axe: str):
        self.page, self.base, self.axe, self.complaints = page, base, axe, []
        page.set_default_timeout(20_000)
        page.on(
            "console",
            lambda m: self.complaints.append(f"console: {m.text}") if m.type == "error" else None,
        )
        page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        page.on("requestfailed", self.failed)
        page.on(
            "response",
            lambda r: self.complaints.append(f"{r.status}: {r.url}") if r.status >= 400 else None,
        )
        page.on("request", self.outside)

    def failed(self, request) -> None:
        # that is: given up, where the next page is opened before it came
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}")

    def outside(self, request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:", "file:")):
            self.complaints.append(f"outside: {request.url}")

    def open(self, name: str, scheme: str = "light"):
        """The page, loaded and typeset."""
        self.page.set_viewport_size(WIDE)
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.complaints.clear()
        response = self.page.goto(f"{self.base}{name}")
        assert response.ok, f"{response.status}: {name}"
        self.page.evaluate("window.MathJax?.startup?.promise")
        return self.page

    def violations(self) -> list[str]:
        """What axe-core finds serious or critical on the page; one line for each rule and place.

        The page is thinned out for it (`ALIKE`): nothing can be asked of it afterwards.
        """
        self.page.evaluate(self.axe)
        self.page.evaluate(ALIKE)
        found = [
            v
            for v in self.page.evaluate(AXE)["violations"]
            if v["impact"] in ("serious", "critical")
        ]
        return [
            f"{v['id']}: {node['target']} {node['failureSummary']}"
            for v in found
            for node in v["nodes"]
        ]

    def too_wide(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture(scope="session")
def browser():
    executable = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if executable is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: make env"
    )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    base = pytest.importorskip(
        "axe_playwright_python.base", reason="axe-playwright-python is not installed: make env"
    )
    return base.AXE_SCRIPT


@pytest.fixture(scope="session")
def tab(browser, site, axe):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Tab(browser.new_page(), f"http://127.0.0.1:{server.server_port}/", axe)
    server.shutdown()


@pytest.fixture
def own_tab(browser, axe):
    """A tab without a site, for pages that a test writes."""
    page = browser.new_page()
    yield Tab(page, "about:", axe)
    page.close()
