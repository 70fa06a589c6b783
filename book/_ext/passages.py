"""What the search page searches: the prose of every section, without code and formulas.

Sphinx's own index knows single words only, no numbers, and cuts its snippets from the source,
formulas and all.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx

#: what is no prose; cells of tables are kept, for their numbers
LEFT_OUT = (
    "section, details.claim, .cell_input, pre, .math, .headerlink, script, style, .recon-element"
)
HEADING, SPACE = re.compile("^(h[1-6]|summary)$"), re.compile(r"\s+")


def passages(html: str, address: str) -> list[dict[str, str]]:
    """Every section of a page's article, and every claim: where, the titles of its page and of
    itself, its text.
    """
    article = BeautifulSoup(html, "html.parser").find("article")
    if not isinstance(article, Tag):
        return []
    page = _text(article.find("h1"))
    found = []
    for section in article.select("section, details.claim"):
        heading = section.find(HEADING, recursive=False)
        own = BeautifulSoup("".join(map(str, section.find_all(recursive=False))), "html.parser")
        for each in own.select(LEFT_OUT):
            each.decompose()
        title, text = _text(heading), _text(own)
        found.append(
            {"at": f"{address}#{section.get('id')}", "page": page, "title": title, "text": text}
        )
    return found


def _text(tag: Tag | None) -> str:
    if tag is None:
        return ""
    return SPACE.sub(" ", tag.get_text(" ")).replace(" #", "").strip()


def write_passages(app: Sphinx, error: Exception | None) -> None:
    """`_static/passages.js`, a script and not JSON, so that the search works from a folder too."""
    if error is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    found = [
        each
        for name in sorted(app.env.found_docs)
        for each in passages((out / f"{name}.html").read_text(encoding="utf-8"), f"{name}.html")
    ]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    (out / "_static" / "passages.js").write_text(f"window.passages={text}\n", encoding="utf-8")


def setup(app: Sphinx) -> dict:
    """After all pages are written."""
    app.connect("build-finished", write_passages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
