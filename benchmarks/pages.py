"""How long every page of the built book takes to load from disk in headless Chromium, beside an
empty page.

    python benchmarks/pages.py [build/published/html]

Writes benchmarks/pages.json: milliseconds from the start of navigation to the end of `load`, the
least of three, and the same as a multiple of an empty page's in the same run.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TOOK = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def load(page: Page, file: Path) -> float:
    """Milliseconds of the fastest of three loads."""
    times = []
    for _ in range(3):
        page.goto(file.as_uri(), wait_until="load")
        page.wait_for_function(f"{TOOK} > 0")
        times.append(page.evaluate(TOOK))
    return min(times)


def main() -> None:
    site = Path(
        sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "published" / "html"
    ).resolve()
    pages = sorted(site.glob("book/**/*.html"))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.html"
        empty.write_text("<!doctype html><title>x</title>")
        page = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        ).new_page()
        base = load(page, empty)
        found = {str(file.relative_to(site)): load(page, file) for file in pages}
    rows = {
        name: {"ms": round(ms), "of_an_empty_page": round(ms / base, 1)}
        for name, ms in found.items()
    }
    slowest = max(found, key=found.__getitem__)
    print(
        f"{len(found)} pages, slowest {slowest}: {found[slowest]:.0f} ms; an empty page"
        f" {base:.0f} ms"
    )
    (ROOT / "benchmarks" / "pages.json").write_text(
        json.dumps({"empty_ms": round(base), "pages": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
