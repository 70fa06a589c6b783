"""Parts of a page that react to the reader without a kernel: HTML, a style sheet and a script as
one fragment.

A fragment holds all it needs, so that it works in a notebook as well as in the book. Its style
sheet and its script are `NAME.css` and, where it moves, `NAME.js` in `book/_static`; the script is
one function of the element and its data.
"""

import base64
import html
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Template
from PIL import Image
from torch import Tensor

from companion.chapters import ROOT
from companion.chapters.pictures import as_pixels

STATIC = ROOT / "book" / "_static"


def element(
    name: str,
    label: str,
    body: str,
    data: Any = None,
    style: str = "",
    ask: str = "",
    paper: str = "",
) -> str:
    """The fragment of the element `recon-NAME`.

    Parts of the body have the class `ask` or `paper` for the same.

    Args:
        label: what a screen reader calls it.
        body: its HTML, which says something without scripts too.
        data: what its script is given, anything that JSON has.
        style: of the section itself.
        ask: what the reader is to do, and paper: what stands in its place where nothing can be
            done, a sentence each.
    """
    given = (
        "" if data is None else ", " + json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    )
    style = f' style="{html.escape(style)}"' if style else ""
    script = STATIC / f"{name}.js"
    said = "".join(
        f'<p class="{kind}">{text}</p>' for kind, text in (("ask", ask), ("paper", paper)) if text
    )
    call = f"(document.getElementById('recon-{name}'){given})"
    run = f"<script>({static(script.name)}){call}</script>" if script.is_file() else ""
    return (
        f'<section id="recon-{name}" class="recon-element recon-{name}"{style}'
        f' aria-label="{html.escape(label)}">'
        f"<style>{static('elements.css')}{static(f'{name}.css')}</style>{said}{body}{run}</section>"
    )


def fragment(path: Path, **values: Any) -> str:
    """A template of Jinja filled in, its lines joined: between tags a space would be shown."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return Template("".join(map(str.strip, lines)), autoescape=True).render(values)


def static(name: str) -> str:
    """A file of `book/_static` as text."""
    return (STATIC / name).read_text(encoding="utf-8").strip()


def data_uri(image: Tensor) -> str:
    """An image in [0, 1], flat or (C, H, W), as a data URI, pixel by pixel."""
    return _webp(as_pixels(image), lossless=True)


def seen_uri(image: Tensor) -> str:
    """An image in [0, 1], flat or (C, H, W), as a data URI; to look at, not exact."""
    return _webp(as_pixels(image), quality=95)


def strip_uri(pictures: Tensor) -> str:
    """Frames (f, k, d) in [0, 1] as one picture, k images high and f wide, as a data URI; to look
    at, not exact.
    """
    columns = [np.concatenate([as_pixels(image) for image in frame], axis=0) for frame in pictures]
    return _webp(np.concatenate(columns, axis=1), quality=85)


def bytes_of(values: Tensor, low: float, high: float) -> str:
    """Numbers in [low, high] as one byte each, in base64: what a script can read in one line."""
    scaled = ((values.double() - low) / (high - low) * 255).round().clamp(0, 255)
    return base64.b64encode(scaled.to(torch.uint8).numpy().tobytes()).decode()


def _webp(pixels: np.ndarray, **how: Any) -> str:
    buffer = io.BytesIO()
    Image.fromarray((pixels * 255).round().astype(np.uint8).squeeze()).save(
        buffer, format="WEBP", method=6, **how
    )
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
