"""Pages printed as PDF by the Chromium that a machine has."""

import os
import shutil
import subprocess
from pathlib import Path

from recon.errors import ReconError
from recon.store.files import atomic_path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 120  # for one page
PDF_MARK = b"\n% recon audit\n"  # a comment at the end, by which an audit knows its own
OPTIONS = ("--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer")


def find_browser() -> str:
    """Path of the Chromium on the PATH; ReconError without one."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise ReconError(
            "a PDF needs Chromium on the PATH: install your system's package of that name"
        )
    return path


def print_page(html: str, path: Path) -> None:
    """Write a page that needs nothing from elsewhere to `path` as PDF; ReconError without Chromium,
    or where it fails. The browser works on a profile of its own, which goes with it.
    """
    command = [
        find_browser(),
        *OPTIONS,
        *(["--no-sandbox"] if getattr(os, "geteuid", int)() == 0 else []),
    ]  # root has no sandbox
    with atomic_path(path) as temporary:
        page = temporary.with_suffix(".html")
        page.write_text(html, encoding="utf-8")
        command += [
            f"--user-data-dir={temporary.parent / 'profile'}",
            f"--print-to-pdf={temporary}",
            page.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise ReconError(f"Chromium did not print {path} within {LIMIT_S} seconds") from error
        if done.returncode or not temporary.is_file():
            reason = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
            raise ReconError(
                f"Chromium could not print {path}: {reason or f'exit code {done.returncode}'}"
            )
        temporary.write_bytes(temporary.read_bytes() + PDF_MARK)
