"""The answer of an audit: a verdict, which images, and the same as a page and as JSON.

The page is one HTML file: no scripts, nothing loaded from elsewhere, readable on a phone.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from recon.store.files import atomic_path
from recon_audit.attacks import KINDS
from recon_audit.fit import Transform
from recon_audit.images import Images, printable
from recon_audit.places import FILES
from recon_audit.scoring import Json
from recon_audit.words import environment, text

SCHEMA = "recon-audit/1"


@dataclass(frozen=True)
class Leaked:
    """A training image that is given away.

    Attributes:
        image: its name.
        index: its row, None where it may not be told (`recon_audit.aggregates`).
        how: "separation", "rows" or "membership".
        score: NCC of its reconstruction, or log-likelihood ratio (or share of images dominated, or
            multiplier).
        probability: 1 − the estimated share of chance among training images that score as high.
    """

    image: str
    index: int | None
    how: str
    score: float
    probability: float


@dataclass(frozen=True)
class Report:
    """What `recon.audit` returns.

    Attributes:
        verdict: "leaks", "not by these attacks" or "cannot tell", on images.
        membership: "inferred", "not by these attacks", "cannot tell", or None where it was not
            asked.
        lines: what came back, who can be named, the worst single image.
        leaked: which training images, most probable first.
        data: what report.json holds.
        page: the HTML.
    """

    verdict: str
    membership: str | None
    lines: list[str]
    leaked: list[Leaked]
    data: Json
    page: str

    @property
    def sentence(self) -> str:
        """The three lines as one text."""
        return " ".join(self.lines)

    def __str__(self) -> str:
        return "\n".join([f"{self.verdict}: {self.lines[0]}", *self.lines[1:]])

    def _repr_html_(self) -> str:
        return text("notebook", self)

    def to_json(self) -> str:
        """The text of report.json; see `schema`."""
        return json.dumps(self.data, indent=1) + "\n"

    def save(self, folder: str | Path) -> Path:
        """Write report.html and report.json; returns the path of the page. ReconError where they
        cannot be written.
        """
        folder = Path(folder)
        for name, content in zip(FILES, (self.page, self.to_json()), strict=True):
            with atomic_path(folder / name) as temporary:
                temporary.write_text(content, encoding="utf-8")
        return folder / FILES[0]


def digest(*parts: bytes) -> str:
    """SHA-256 of all of them."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


# ----------------------------------------------------------------------------------------- the page

NAMES = {**{name: kind.title for name, kind in KINDS.items()}, "membership": "Membership"}
LARGEST = 64  # pixels on the longest side of a picture


@dataclass(frozen=True)
class Row:
    """A candidate, by its number and as a picture (H, W, C) uint8, C = 1 or 3, the image assigned
    to it and its name, and their NCC.
    """

    candidate: int
    reconstruction: np.ndarray
    image: np.ndarray
    name: str
    ncc: float


def rows_of(
    x_hat: Tensor,
    transform: Transform,
    inputs: Tensor,
    images: Images,
    pairs: list[tuple[int, int, float]],
) -> list[Row]:
    """Of `matches` (candidate, image, NCC): candidates brought to the contrast of their image, in
    pixels.
    """
    rows, scaled = [], images.scaled
    for candidate, image, value in pairs:
        centred = (x_hat[candidate] - x_hat[candidate].mean()).cpu()
        target = inputs[image].flatten()
        drawn = target.mean() + centred * (target.std() / centred.std().clamp_min(1e-12))
        reconstruction = images.picture(transform.back(drawn.view(images.shape)))
        name = printable(images.names[image])
        rows.append(Row(candidate, reconstruction, images.picture(scaled[image]), name, value))
    return rows


def page(report: Json, pairs: Sequence[tuple[Row, Row]]) -> str:
    """The whole page.

    Args:
        report: what report.json holds.
        pairs: of the attack that found most, the k-th best match among training images, and among
            held-out ones.
    """
    made = environment(escaped=True)
    made.filters["embedded"] = embed
    template = made.get_template("report.html.jinja")
    style = Markup((Path(__file__).parent / "report.css").read_text(encoding="utf-8"))
    return template.render(report=report, pairs=pairs, style=style, names=NAMES)


def embed(pixels: np.ndarray) -> str:
    """(H, W, C) uint8, C = 1 or 3, as the address of a picture within the page, a PNG of at most
    LARGEST pixels a side.
    """
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((LARGEST, LARGEST), Image.Resampling.BOX)
    buffer = io.BytesIO()
    image.save(buffer, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
