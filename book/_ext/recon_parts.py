"""`{recon} PART`: parts of a page that are written when the book is built, from result files, stamps and docstrings.

Nothing in them is typed by hand.  Which claims there must be is said by book/claims.yml: one without a result fails
the build, and so does a result's claim that nobody listed.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbformat
from audit_parts import PARTS as AUDIT_PARTS
from audit_parts import write_calibration
from bars import write_bars
from chapter_pages import EXECUTED, laid_out, opening
from claim_parts import Sources, cards, escaped, failed, not_attempted, on_processors, replies, verdicts
from docutils import nodes
from docutils.statemachine import StringList
from nbformat import NotebookNode
from PIL import Image
from reference_parts import modules
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from recon.chapters import load, registry
from recon.chapters.catalogue import PAPERS
from recon.errors import ReconError
from recon.press.numbers import rendered
from recon.store.results import Result

NUMBERED = ("book/index", "book/audit", "book/publish")  # pages that are templates
THUMBNAILS = "thumbnails"


class Recon(SphinxDirective):
    """The directive; an unknown part or a claim out of place is an error of the build."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        root = Path(self.env.srcdir)
        executed = root / "book" / "executed"
        if self.arguments[0].startswith("reference/"):
            parts = self.arguments[0].removeprefix("reference/").split(", ")
            return [self._module(name) for name in modules(parts)]
        try:
            text = part(self.arguments[0], Sources(root, executed / "results", sorted(executed.glob("*.ipynb"))))
        except ReconError as error:
            raise self.error(str(error)) from error
        return self._parsed(text)

    def _parsed(self, text: str) -> list[nodes.Node]:
        box = nodes.container()
        self.state.nested_parse(StringList(text.splitlines(), self.arguments[0]), self.content_offset, box)
        return box.children

    def _module(self, name: str) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        section += nodes.title(name, name)
        section += self._parsed(
            f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :member-order: bysource\n```"
        )
        return section


def part(name: str, sources: Sources) -> str:
    """The Markdown of one part: `claims/PAPER` or one of `PARTS`; ReconError for any other."""
    if name.startswith("claims/") and name.removeprefix("claims/") in PAPERS:
        return cards(sources, name.removeprefix("claims/"))
    if name not in PARTS:
        raise ReconError(f"a page asks for the part '{name}', which there is not: claims/PAPER, {', '.join(PARTS)}")
    return PARTS[name](sources)


# -------------------------------------------------------------------------------------------------------- status


def by_chapter(sources: Sources) -> dict[str, list[Result[Any]]]:
    """Chapter -> the results that its page shows."""
    found = defaultdict(list)
    for name, experiment in registry().items():
        if os.path.lexists(sources.results / name / "result.json"):
            found[experiment.chapter].append(load(sources.results / name, arrays=False))
    return found


def contents(sources: Sources) -> str:
    """A card for each chapter: its question, its answer, what reading takes, and what running took for this edition."""
    results = by_chapter(sources)
    lines = [":::::{grid} 1 2 2 3", ":gutter: 3", ":class-container: chapters", ""]
    for page in sources.chapters:
        nb = nbformat.read(page, as_version=4)
        title = re.search(r"^# (.+)$", nb.cells[0].source, re.MULTILINE)
        seconds = sum(result.made.seconds for result in results[page.stem])
        run = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        lines += [f"::::{{grid-item-card}} {int(page.stem[:2])}. {title[1] if title else page.stem}"]
        lines += [f":link: executed/{page.stem}", ":link-type: doc"]
        if found := thumbnail(nb):
            lines += [f":img-top: {THUMBNAILS}/{page.stem}.png", f":img-alt: {found[1]}"]
        lines += ["", f"*{opening(nb, 'Question')}*", "", opening(nb, "Answer")]
        lines += [":::{card-footer}", f"{reading_minutes(nb)} min to read, {run} to run", ":::", "::::", ""]
    return "\n".join([*lines, ":::::"])


def thumbnail(nb: NotebookNode) -> tuple[bytes, str] | None:
    """The PNG of the figure that stands for a chapter, of the cell tagged so, else its first, and what that shows;
    None without a figure."""
    chosen = [cell for cell in nb.cells if "thumbnail" in cell.metadata.get("tags", [])]
    for cell in [*chosen, *nb.cells]:
        for output in reversed(cell.get("outputs", [])):
            if "image/png" in output.get("data", {}):
                words = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
                return base64.b64decode(output.data["image/png"]), " ".join(words.split())
    return None


def write_thumbnails(app: Sphinx) -> None:
    """Before pages are read: the upper left of each chapter's figure, as wide as a card is on a fine screen."""
    folder = Path(app.srcdir) / "book" / THUMBNAILS
    for page in sorted((Path(app.srcdir) / EXECUTED).glob("*.ipynb")):
        found = thumbnail(nbformat.read(page, as_version=4))
        if found is None:
            continue
        image = Image.open(io.BytesIO(found[0])).convert("RGB")
        height = min(image.height, image.width * 5 // 8)
        folder.mkdir(exist_ok=True)
        image.crop((0, 0, image.width, height)).resize((480, 480 * height // image.width)).save(
            folder / f"{page.stem}.png", optimize=True
        )


def proof(sources: Sources) -> str:
    """The grid of pictures that opens chapter 6, as its page has it."""
    for page in sources.chapters:
        for cell in nbformat.read(page, as_version=4).cells:
            for output in cell.get("outputs", []):
                html = output.get("data", {}).get("text/html", "")
                if 'id="recon-proof"' in html:
                    return f"```{{raw}} html\n{html}\n```"
    raise ReconError("no chapter of this edition has the pictures of the landing page")


def chapter_table(sources: Sources) -> str:
    """How every page was made, and what its experiments took."""
    results = by_chapter(sources)
    columns = ("Chapter", "Commit", "Data", "Profile", "Device", "Versions", "Seconds", "Peak memory")
    table = []
    for page in sources.chapters:
        nb = nbformat.read(page, as_version=4)
        stamp = nb.metadata.get("recon")
        if not stamp:
            continue
        mine = results[page.stem]
        seconds = sum(result.made.seconds for result in mine)
        memory = max((result.made.peak_memory_mb for result in mine), default=0.0)
        versions = ", ".join(f"{name} {escaped(number)}" for name, number in stamp["versions"].items())
        data = f"{stamp['data']['name']}, sha256 `{stamp['data']['sha256'][:16]}`"
        cells = [f"[{page.stem}](executed/{page.stem})", f"`{stamp['commit']}`", data, stamp["profile"]]
        cells += [escaped(stamp["device"]), versions, f"{seconds:.0f}", f"{memory / 1000:.1f} GB" if memory else "–"]
        table.append(cells)
    same = [k for k in range(1, 6) if len({cells[k] for cells in table}) == 1]  # said once, above the table
    head = "; ".join(f"{columns[k].lower()}: {table[0][k]}" for k in same)
    kept = [k for k in range(len(columns)) if k not in same]
    lines = ["| " + " | ".join(columns[k] for k in kept) + " |", "|" + "---|" * len(kept)]
    lines += ["| " + " | ".join(cells[k] for k in kept) + " |" for cells in table]
    return (f"All chapters: {head}.\n\n" if head else "") + "\n".join(lines)


def reading_minutes(nb: nbformat.NotebookNode) -> int:
    """At 200 words a minute, prose and shown code, and a quarter of a minute a figure."""
    shown = [c for c in nb.cells if not {"remove-cell", "injected-parameters"} & set(c.metadata.get("tags", []))]
    words = sum(len(cell.source.split()) for cell in shown)
    figures = sum("mystnb" in cell.metadata for cell in shown)
    return max(1, round(words / 200 + figures / 4))


def landing(app: Sphinx, docname: str, source: list[str]) -> None:
    """Before one of `NUMBERED` is read: its numbers."""
    if docname in NUMBERED:
        root = Path(app.srcdir)
        source[0] = rendered(source[0], root, root / EXECUTED / "results")


PARTS = {
    "contents": contents,
    "proof": proof,
    "failed": failed,
    "replies": replies,
    "verdicts": verdicts,
    "processors": on_processors,
    "not-attempted": not_attempted,
    "chapters": chapter_table,
    **AUDIT_PARTS,
}


def setup(app: Sphinx) -> dict:
    """The directive, the reference, and chapters as they are read."""
    app.add_directive("recon", Recon)
    app.setup_extension("reference_parts")
    app.connect("source-read", landing)
    app.connect("source-read", laid_out)
    app.connect("builder-inited", write_thumbnails)
    app.connect("builder-inited", write_calibration)
    app.connect("builder-inited", write_bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
