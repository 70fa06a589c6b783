"""`has → does → gets`: the strip of three icons on top of a chapter, from book/strips.yml."""

from __future__ import annotations

import html
from pathlib import Path

import yaml

#: outlines in a square of 24
ICONS = {
    "network": "M3 6a2 2 0 1 0 4 0a2 2 0 1 0-4 0M3 18a2 2 0 1 0 4 0a2 2 0 1 0-4 0"
    "M17 12a2 2 0 1 0 4 0a2 2 0 1 0-4 0M7 7l10 4M7 17l10-4",
    "gradient": "M3 4c4 0 6 3 8 8s4 7 9 7M15 22l6-3-3-6",
    "photographs": "M3 5h18v14H3zM3 16l5-5 4 4 3-3 6 6M16 9h.01",
    "solve": "M4 7l6 8M10 7l-6 8M14 9h7M14 14h7",
    "search": "M20 12a8 8 0 1 1-3-6M17 2v5h-5",
    "score": "M4 20h17M6 20v-5M12 20V9M18 20V4",
}


def icon(name: str) -> str:
    """An outline in the colour of the text; the words beside it say the same."""
    return (
        '<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true" fill="none"'
        ' stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">'
        f'<path d="{ICONS[name]}"/></svg>'
    )


def strip(root: Path, chapter: str) -> str:
    """The strip of a chapter as HTML; "" for pages without one."""
    parts = yaml.safe_load((root / "book" / "strips.yml").read_text(encoding="utf-8")).get(chapter)
    if not parts:
        return ""
    boxes = [
        f"<span>{icon(name)}<b>{verb}</b> {html.escape(words)}</span>"
        for verb, (name, words) in parts.items()
    ]
    return f'<p class="recon-strip">{"".join(boxes)}</p>'
