"""Writes tests/reference: every chapter executed at smoke on the bundled photographs, which nbval compares with.

python tests/references.py [--jobs 2] [CHAPTER …]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)  # kernels draw figures as words, by tests.drawn

from companion.press.edition import execute_smoke, replace_pages  # noqa: E402

TEXTS = ("text/plain", "text/markdown")  # what nbval compares of a displayed value


def lightened(outputs: list[Any]) -> Iterator[Any]:
    """Outputs without pictures and HTML, neighbouring pieces of what a cell prints in one: where they are cut is
    chance."""
    before = None
    for output in outputs:
        if output.output_type == "stream" and before is not None and before.output_type == "stream":
            before.text += output.text
            continue
        if output.output_type != "stream":
            output.data = {kind: text for kind, text in output.data.items() if kind in TEXTS}
        before = output
        yield output


def main() -> None:
    """Execute, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        pages = execute_smoke(Path(folder), Path(folder) / "results", ROOT, arguments.chapters, arguments.jobs)
    for page in pages.values():
        for cell in page.cells:
            if cell.cell_type == "code":
                cell.outputs = list(lightened(cell.outputs))
    replace_pages(ROOT / "tests" / "reference", pages, keep=bool(arguments.chapters))


if __name__ == "__main__":
    main()
