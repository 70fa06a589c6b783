"""Writes tests/reference: every chapter executed at smoke on the bundled photographs, which nbval
compares with.

python tests/references.py [CHAPTER …]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nbformat import NotebookNode  # noqa: E402

from companion.press import stamps  # noqa: E402
from companion.press.edition import chapters_of, executed, replace_pages  # noqa: E402
from companion.press.runner import read_notebook  # noqa: E402
from companion.press.stamps import Edition  # noqa: E402
from recon.store.files import only_one  # noqa: E402

TEXTS = ("text/plain", "text/markdown")  # what nbval compares of a displayed value


def lightened(outputs: list[Any]) -> Iterator[Any]:
    """Outputs without pictures and HTML, neighbouring pieces of what a cell prints in one: where
    they are cut is chance.
    """
    before = None
    for output in outputs:
        if output.output_type == "stream" and before is not None and before.output_type == "stream":
            before.text += output.text
            continue
        if output.output_type != "stream":
            output.data = {kind: text for kind, text in output.data.items() if kind in TEXTS}
        before = output
        yield output


def execute_smoke(
    work: Path, results: Path, root: Path, chapters: Sequence[str] | None = None
) -> dict[str, NotebookNode]:
    """File name -> chapter, all or those named, executed at smoke on the bundled photographs: what
    nbval compares with.

    Args:
        work: a folder for what is on its way.
        results: where the experiments' are, or will be.
    """

    def stamp(source: Path, _: float) -> dict:
        return {"notebook_sha256": stamps.notebook_sha256(read_notebook(source))}

    with only_one(work, ".run-*"):
        settings = Edition("smoke", "photos", "cpu")
        env = {"RECON_OUT": str(results.resolve()), "MPLBACKEND": "agg"}  # without figures
        return dict(executed(chapters_of(root, chapters), work, env, settings, stamp))


def main() -> None:
    """Execute, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        pages = execute_smoke(Path(folder), Path(folder) / "results", ROOT, arguments.chapters)
    for page in pages.values():
        for cell in page.cells:
            if cell.cell_type == "code":
                cell.outputs = list(lightened(cell.outputs))
    replace_pages(ROOT / "tests" / "reference", pages, keep=bool(arguments.chapters))


if __name__ == "__main__":
    main()
