"""`{recon} PART`: parts of a page that are written when the book is built, from result files,
stamps and docstrings.

Nothing in them is typed by hand. Which claims there must be is said by book/claims.yml: one without
a result fails the build, and so does a result's claim that nobody listed.
"""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import nbformat
import numpy as np
from audit_parts import PARTS as AUDIT_PARTS
from audit_parts import write_calibration
from bars import write_bars
from chapter_pages import EXECUTED, laid_out, opening
from claim_parts import (
    THUMBNAILS,
    Sources,
    by_figure,
    cards,
    failed,
    headlines,
    ledger,
    not_attempted,
    replays,
    replies,
    small,
    verdicts,
)
from docutils import nodes
from docutils.statemachine import StringList
from nbformat import NotebookNode
from PIL import Image
from reference_parts import attack_table, modules
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from strips import ICONS, icon

from companion.chapters.catalogue import best, rows
from companion.chapters.claims import PAPERS, claims_page
from companion.press.numbers import rendered
from recon.errors import ReconError

NUMBERED = ("book/index", "book/audit", "book/publish")  # pages that are templates


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
            text = part(
                self.arguments[0],
                Sources(root, executed / "results", sorted(executed.glob("*.ipynb"))),
            )
        except ReconError as error:
            raise self.error(str(error)) from error
        return self._parsed(text)

    def _parsed(self, text: str) -> list[nodes.Node]:
        box = nodes.container()
        self.state.nested_parse(
            StringList(text.splitlines(), self.arguments[0]), self.content_offset, box
        )
        return box.children

    def _module(self, name: str) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        section += nodes.title(name, name)
        section += self._parsed(
            f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :member-order:"
            " bysource\n```"
        )
        return section


def part(name: str, sources: Sources) -> str:
    """The Markdown of one part: `claims/PAPER`, `figures/PAPER` or one of `PARTS`; ReconError for
    any other.
    """
    kind, _, paper = name.partition("/")
    if kind in ("claims", "figures") and paper in PAPERS:
        return cards(sources, paper) if kind == "claims" else by_figure(sources, paper)
    if name not in PARTS:
        raise ReconError(
            f"a page asks for the part '{name}', which there is not: claims/PAPER,"
            f" {', '.join(PARTS)}"
        )
    return PARTS[name](sources)


def contents(sources: Sources) -> str:
    """A card for each chapter: its question, its answer, and what reading takes."""
    lines = [":::::{grid} 1 2 2 3", ":gutter: 3", ":class-container: chapters", ""]
    for page in sources.chapters:
        nb = nbformat.read(page, as_version=4)
        title = re.search(r"^# (.+)$", nb.cells[0].source, re.MULTILINE)
        if not page.stem[0].isdigit():
            continue  # appendices stand in the menu
        lines += [
            f"::::{{grid-item-card}} {int(page.stem[:2])}. {title[1] if title else page.stem}"
        ]
        lines += [f":link: executed/{page.stem}", ":link-type: doc"]
        if found := thumbnail(nb):
            lines += [f":img-top: {THUMBNAILS}/{page.stem}.png", f":img-alt: {found[1]}"]
        lines += ["", f"*{opening(nb, 'Question')}*", "", opening(nb, "Answer")]
        lines += [":::{card-footer}", f"{reading_minutes(nb)} min to read", ":::", "::::", ""]
    return "\n".join([*lines, ":::::"])


def thumbnail(nb: NotebookNode) -> tuple[bytes, str] | None:
    """The PNG of the figure that stands for a chapter, of the cell tagged so, else its first, and
    what that shows; None without a figure.
    """
    chosen = [cell for cell in nb.cells if "thumbnail" in cell.metadata.get("tags", [])]
    for cell in [*chosen, *nb.cells]:
        for output in reversed(cell.get("outputs", [])):
            if "image/png" in output.get("data", {}):
                words = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
                return base64.b64decode(output.data["image/png"]), " ".join(words.split())
    return None


def write_thumbnails(app: Sphinx) -> None:
    """Before pages are read: the upper left of each chapter's figure, and photographs of those that
    stand for a paper's figure.
    """
    root = Path(app.srcdir)
    folder = root / "book" / THUMBNAILS
    folder.mkdir(exist_ok=True)
    books = {
        page.stem: nbformat.read(page, as_version=4)
        for page in sorted((root / EXECUTED).glob("*.ipynb"))
    }
    for stem, nb in books.items():
        if found := thumbnail(nb):
            image = opened(found[0])
            box = (0, 0, image.width, min(image.height, image.width * 5 // 8))
            write_small(image.crop(box), folder / f"{stem}.png", 480)
    rows = [row for of_paper in claims_page(root)["figures"].values() for row in of_paper]
    for item in (row for row in rows if "picture" in row):
        stem, name, row = f"{item['picture']}#0".split("#")[:3]
        if stem in books:
            image = opened(figure_named(books[stem], name))
            write_small(
                image.crop(first_tiles(image, int(row))), folder / Path(small(item)).name, 300
            )


def figure_named(nb: NotebookNode, name: str) -> bytes:
    """The PNG of the figure with this name; ReconError where the page has none."""
    for cell in nb.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == name:
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    return base64.b64decode(output.data["image/png"])
    raise ReconError(f"book/claims.yml asks for the figure '{name}', which no page has")


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGBA")


def first_tiles(image: Image.Image, row: int, tiles: int = 3) -> tuple[int, int, int, int]:
    """The box of the first photographs of a row, of a figure without a ground."""
    solid = np.asarray(image)[..., 3] > 0
    edges = np.flatnonzero(np.diff(np.r_[0, solid.mean(1) > 0.1, 0])).reshape(-1, 2)
    top, bottom = edges[np.diff(edges)[:, 0] > 40][row]
    left = np.flatnonzero(solid[top:bottom].mean(0) > 0.95)[0]
    return left, top, min(image.width, left + tiles * (bottom - top)), bottom


def write_small(image: Image.Image, target: Path, width: int) -> None:
    """A picture on white, so many pixels wide."""
    ground = Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image)
    size = (width, image.height * width // image.width)
    ground.convert("RGB").resize(size).save(target, optimize=True)


def proof(sources: Sources) -> str:
    """The grid of pictures that opens chapter 6, as its page has it."""
    for page in sources.chapters:
        for cell in nbformat.read(page, as_version=4).cells:
            for output in cell.get("outputs", []):
                html = output.get("data", {}).get("text/html", "")
                if 'id="recon-proof"' in html:
                    return f"```{{raw}} html\n{html}\n```"
    raise ReconError("no chapter of this edition has the pictures of the landing page")


def paper_figures(sources: Sources) -> str:
    """The map from the papers' figures to pages: one line a paper."""
    of = claims_page(sources.root)["figures"]
    counted = best(rows(sources.results, sources.root))
    lines = []
    for paper, items in of.items():
        links = []
        for item in items:
            stem = next((counted[name].chapter for name in item["claims"] if name in counted), "")
            links += [f"[{item['where']}](executed/{stem})"] if stem else []
        lines.append(f"- **{PAPERS[paper]}**: {' · '.join(links)}")
    return "\n".join(lines)


def reading_minutes(nb: nbformat.NotebookNode) -> int:
    """At 200 words a minute, prose and shown code, and a quarter of a minute a figure."""
    shown = [
        c
        for c in nb.cells
        if not {"remove-cell", "injected-parameters"} & set(c.metadata.get("tags", []))
    ]
    words = sum(len(cell.source.split()) for cell in shown)
    figures = sum("mystnb" in cell.metadata for cell in shown)
    return max(1, round(words / 200 + figures / 4))


def landing(app: Sphinx, docname: str, source: list[str]) -> None:
    """Before one of `NUMBERED` is read: its numbers, and `:NAME:` for one of `ICONS`."""
    if docname in NUMBERED:
        root = Path(app.srcdir)
        text = rendered(source[0], root, root / EXECUTED / "results")
        source[0] = re.sub(f":({'|'.join(ICONS)}):", lambda found: icon(found[1]), text)


PARTS = {
    "attacks": lambda _: attack_table(),
    "contents": contents,
    "proof": proof,
    "failed": failed,
    "replies": replies,
    "verdicts": verdicts,
    "ledger": ledger,
    "not-attempted": not_attempted,
    "headlines": headlines,
    "replays": replays,
    "paper-figures": paper_figures,
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
