"""The answer of an audit: a verdict, which images, and the same as a page and as JSON.

The page is one HTML file: no scripts, nothing loaded from elsewhere, readable on a phone.
"""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from recon.store.files import atomic_path
from recon_audit.attacks import KINDS
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
        score: NCC of its reconstruction, or that of the best score of membership.
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


# ----------------------------------------------------------------------------------------- the page

LARGEST = 64  # pixels on the longest side of a picture


def page(report: Json, pictures: Tensor | None) -> str:
    """The whole page.

    Args:
        report: what report.json holds.
        pictures (4k, C, H, W): of the attack that found most the k best matches: candidates,
            their training images, candidates, their held-out images; None for no pictures.
    """
    return (
        environment(escaped=True)
        .get_template("report.html.jinja")
        .render(
            report=report,
            picture=None if pictures is None or not len(pictures) else embed(pictures),
            kinds=KINDS,
        )
    )


def embed(pictures: Tensor) -> str:
    """Four rows of pictures (4k, C, H, W), small and each at its own contrast, as the address of
    a picture within the page.
    """
    from torchvision.utils import save_image

    if pictures.shape[1] != 3:  # bands that are no colours: their mean
        pictures = pictures.mean(1, keepdim=True)
    height, width = (min(side, LARGEST) for side in pictures.shape[2:])
    small = adaptive_avg_pool2d(pictures, (height, width))
    buffer = io.BytesIO()
    save_image(small, buffer, "png", nrow=len(small) // 4, normalize=True, scale_each=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
