"""The report of an audit as one HTML file: no scripts, nothing loaded from elsewhere, readable on a phone."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from recon.auditing.attacks import KINDS
from recon.auditing.fit import Transform
from recon.auditing.images import Images, printable
from recon.auditing.report import EDPB
from recon.auditing.verdict import capital

NAMES = {**{name: kind.title for name, kind in KINDS.items()}, "membership": "Membership"}
LARGEST, LOSSLESS = 96, 48  # pixels on the longest side of a picture, and of one that is kept to the last bit
SCORES = {
    "lira": "LiRA",
    "rmia": "RMIA",
    "multipliers": "Multipliers",
    "span": "Span of the first layer",
    "bent": "Span, as Adam bends it",
    "filter": "Matched filter of the first layer",
}
FREE = {
    "mixtures": "mixtures of training images",
    "span": "mixtures of the weights",
    "directions": "singular directions",
    "means": "mean images",
}

TITLES = {
    "leaks": "Leaks training images",
    "not by these attacks": "No evidence of leakage by these attacks",
    "cannot tell": "Cannot tell",
}
SHARES = {
    "searched": "lies in the subspace searched, the most that can be explained",
    "by_attack": "explained by its reconstructions",
    "by_training": "explained by the training images",
    "by_held_out": "explained by as many held-out images",
}

LIMITS = (
    "Few attacks were tried: on images three, of which two read the first dense layer alone, and three scores of "
    "membership. Others may find more; that these find nothing is not a proof of privacy.",
    "What the attacks would have found is measured on networks trained by a recipe that is given or guessed, without "
    "augmentation, on as many images as a half of all of yours. Networks trained otherwise may give away more or less.",
    "The p-value compares with your held-out images. It means what it says only if they come from the same source as "
    "the training images and the network never saw them or near-copies of them.",
    "Any mixture of training images is nearer to those than to held-out ones. So an attack must also find more than "
    "random mixtures do, by more than their spread; that second p-value takes the spread as normal. Weights that hold "
    "nothing but mixtures do hold something of your images: this audit does not call that a leak.",
    "The attacks were told the number of training images and their height and width, and nothing else about them. The "
    "mean subtracted in training is taken from your images: a stranger would have to guess it to show these pictures, "
    "not to find them.",
    "A match is likeness up to brightness and contrast, not a copy, and the pairs below were chosen by that likeness. "
    "Chance is what the same choice finds among held-out images, shown beside them.",
    EDPB,
    "A network with several copies of one image, or with images much like one another, is counted per image.",
)


@dataclass(frozen=True)
class Picture:
    """pixels: (H, W, C) uint8, C = 1 or 3 · name: what it is, for the alt text and the caption."""

    pixels: np.ndarray
    name: str


@dataclass(frozen=True)
class Row:
    """A reconstruction, the image assigned to it, and their NCC."""

    reconstruction: Picture
    image: Picture
    ncc: float


def rows_of(
    x_hat: Tensor, transform: Transform, inputs: Tensor, images: Images, found: list[tuple[int, int, float]]
) -> list[Row]:
    """Of `matches` (candidate, image, NCC): candidates brought to the contrast of their image, in pixels."""
    shown = []
    scaled = images.scaled
    low, high = min(0.0, scaled.min().item()), max(1.0, scaled.max().item())
    for candidate, image, value in found:
        centred = (x_hat[candidate] - x_hat[candidate].mean()).cpu()
        target = inputs[image].flatten()
        drawn = target.mean() + centred * (target.std() / centred.std().clamp_min(1e-12))
        pixels = (transform.back(drawn.view(images.shape)) - low) / (high - low)
        array = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        reconstruction = Picture(array.transpose(1, 2, 0), f"Reconstruction {candidate}")
        shown.append(Row(reconstruction, Picture(images.picture(image), printable(images.names[image])), value))
    return shown


def page(report: dict[str, Any], pairs: Sequence[tuple[Row, Row]], regime: str) -> str:
    """The whole page.  report: what report.json holds · pairs: of the attack that found most, the k-th best match among
    training images, and among held-out ones · regime: a sentence on whether DecoReco can work here."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"embedded": embedded, "printable": printable, "capitalize_first": capital}
    template = environment.get_template("report.html.jinja")
    style = Markup((Path(__file__).parent / "report.css").read_text(encoding="utf-8"))
    said = {"names": NAMES, "scores": SCORES, "free": FREE, "limits": LIMITS, "titles": TITLES, "shares": SHARES}
    return template.render(report=report, result=report["result"], pairs=pairs, regime=regime, style=style, **said)


def embedded(pixels: np.ndarray) -> str:
    """(H, W, C) uint8, C = 1 or 3, as the address of a picture within the page: of at most LARGEST pixels a side, as
    PNG up to LOSSLESS and as JPEG beyond, some 5 kB each."""
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((LARGEST, LARGEST), Image.Resampling.BOX)
    kind, options = ("png", {"optimize": True}) if max(image.size) <= LOSSLESS else ("jpeg", {"quality": 85})
    buffer = io.BytesIO()
    image.save(buffer, format=kind.upper(), **options)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
