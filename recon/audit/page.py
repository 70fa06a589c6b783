"""The report of an audit as one HTML file: no scripts, nothing loaded from elsewhere, readable on a phone."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from PIL import Image

STYLE = """
:root { color-scheme: light dark; --line: #c8c8c8; --quiet: #5a5a5a; --leak: #a11212; }
@media (prefers-color-scheme: dark) { :root { --line: #4a4a4a; --quiet: #b0b0b0; --leak: #ff9a8f; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; } .quiet { color: var(--quiet); } .pairs td, dd { overflow-wrap: anywhere; }
.verdict { font-size: 1.2rem; border-left: .4rem solid; padding-left: .8rem; }
.leak { color: var(--leak); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--quiet); padding-bottom: .4rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .35rem; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; } td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.null.number { white-space: normal; }
tr.decisive { font-weight: bold; }
.pairs { table-layout: fixed; } .pairs td, .pairs thead th { font-size: .75rem; }
.pairs th:first-child { width: 1.6rem; } .pairs img { width: 100%; max-width: 8rem; height: auto; }
img { image-rendering: pixelated; }
dt { color: var(--quiet); } dd { margin: 0 0 .4rem 0; }
"""

NAMES = {
    "separation": "Separation of the first layer",
    "rows": "The largest rows of the first layer",
    "decoreco": "DecoReco",
}
FREE = {
    "mixtures": "mixtures of training images",
    "span": "mixtures of the weights",
    "directions": "singular directions",
    "means": "mean images",
}

LIMITS = (
    "Three attacks were tried, on the first layer of a fully connected ReLU network. Others may find more; that these "
    "find nothing is not a proof of privacy.",
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


def page(report: dict[str, Any], pairs: Sequence[tuple[Row, Row]], regime: str) -> str:
    """The whole page.  report: what report.json holds · pairs: of the attack that found most, the k-th best match among
    training images, and among held-out ones · regime: a sentence on whether DecoReco can work here."""
    result = report["result"]
    title = f"{'Leaks training images' if result['leak'] else 'No evidence of leakage'}: {report['weights']['file']}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>What do these weights give away?</h1>
<p class="verdict {"leak" if result["leak"] else "none"}">{escape(report["summary"])}</p>
<p class="quiet">Rule, fixed before the attack: leakage where {escape(result["rule"])}. The attacks read the
weights alone; images were used afterwards, to compare. This page shows training images: keep it as you keep them.</p>
<h2>Counts, and what chance would give</h2>
{_counts(report)}
<h2>Can DecoReco work on this network?</h2>
{_first_layer(report["first_layer"], regime)}
<h2>The best matches</h2>
{_pairs(pairs, NAMES[result["attack"]])}
<h2>What this does not say</h2>
<ul>
{"".join(f"<li>{escape(limit)}</li>" for limit in LIMITS)}
</ul>
<h2>What was audited</h2>
{_facts(report)}
</main>
</body>
</html>
"""


def _counts(report: dict[str, Any]) -> str:
    result, n = report["result"], report["images"]["scored"]
    tables = "".join(_attack(name, result) for name in result["attacks"])
    return f"""<p>Every candidate of an attack is assigned to one image among {n} training and {n} held-out images; how
many pairs are more alike than a threshold. The row in bold decides, with nine times its p.</p>
{tables}
<p class="quiet">NCC, normalised cross-correlation, is 1 for the same image up to brightness and contrast. By chance:
estimated share of the training images found that may be there by chance, (held out + 1) / training. Null: training
minus held-out images that as many candidates find which recover nothing; mean of 20 draws, in brackets the largest, and
which kind did best. p: the larger of two, the probability of as many training images among those found if membership
were drawn at random, and that of as large an excess in one more draw of the null.</p>"""


def _attack(name: str, result: dict[str, Any]) -> str:
    about = result["attacks"][name]
    if about["why_not"]:
        return f"<p><b>{NAMES[name]}</b> did not run. {escape(about['why_not'])}</p>"
    rows = "".join(_row(row, _decides(row, name, result)) for row in about["counts"])
    return f"""<div class="wide"><table>
<caption><b>{NAMES[name]}</b>: {escape(about["how"])}; {about["seconds"]:.1f} s</caption>
<thead><tr><th scope="col">Likeness</th><th scope="col" class="number">training</th>
<th scope="col" class="number">held out</th><th scope="col" class="number">by chance</th>
<th scope="col" class="number">null</th><th scope="col" class="number">p</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _decides(row: dict[str, Any], name: str, result: dict[str, Any]) -> bool:
    return (name, row["metric"], row["threshold"]) == (result["attack"], "NCC", result["threshold"])


def _row(row: dict[str, Any], decides: bool) -> str:
    chance = f"{row['fdr']:.0%}" if row["targets"] else "–"
    null = f"{row['null_mean']:.1f} ({row['null_max']}), {FREE[row['null']]}" if "null" in row else "not measured"
    return (
        f'<tr{" class=decisive" if decides else ""}><th scope="row">{row["metric"]} &gt; {row["threshold"]}</th>'
        f'<td class="number">{row["targets"]}</td><td class="number">{row["decoys"]}</td>'
        f'<td class="number">{chance}</td><td class="number null">{null}</td>'
        f'<td class="number">{row.get("p", row["p_value"]):.1g}</td></tr>'
    )


def _first_layer(explained: dict[str, Any], regime: str) -> str:
    rows = (
        ("lies in the subspace searched, the most that can be explained", "searched"),
        ("explained by its reconstructions", "by_attack"),
        ("explained by the training images", "by_training"),
        ("explained by as many held-out images", "by_held_out"),
    )
    cells = "".join(
        f'<tr><th scope="row">{name}</th><td class="number">'
        f"{'not measured' if explained[key] is None else format(explained[key], '.0%')}</td></tr>"
        for name, key in rows
    )
    return f"""<p>{escape(regime)}</p>
<table><caption>Share of the first layer (squared norm) that …</caption><tbody>{cells}</tbody></table>"""


def _pairs(pairs: Sequence[tuple[Row, Row]], attack: str) -> str:
    rows = "".join(
        f'<tr><th scope="row">{rank}</th>{_cell(train, "training image")}{_cell(held_out, "held-out image")}</tr>'
        for rank, (train, held_out) in enumerate(pairs, start=1)
    )
    return f"""<div class="wide"><table class="pairs">
<caption>{attack}, which found most. On the left the best pair, the second best, …, one-to-one with training images;
on the right the same with images that the network never saw. Reconstructions are shown at the contrast
of their partner.</caption>
<thead><tr><th scope="col">No.</th><th scope="col">recon&shy;struction</th><th scope="col">training image</th>
<th scope="col">recon&shy;struction</th><th scope="col">held-out image</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _cell(row: Row, kind: str) -> str:
    score = f"NCC {row.ncc:.2f}"
    alt = f"{row.reconstruction.name}, {score} to the {kind} beside it"
    return (
        f"<td>{_image(row.reconstruction, alt)}<br>{score}</td>"
        f"<td>{_image(row.image, f'{kind} {row.image.name}')}<br>{escape(row.image.name)}</td>"
    )


def _image(picture: Picture, alt: str) -> str:
    height, width = picture.pixels.shape[:2]
    data = base64.b64encode(png(picture.pixels)).decode()
    return f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" alt="{escape(alt)}">'


def png(pixels: np.ndarray) -> bytes:
    """(H, W, C) uint8, C = 1 or 3, as a PNG file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def _facts(report: dict[str, Any]) -> str:
    weights, images = report["weights"], report["images"]
    means = {
        "image": "the mean of the training images",
        "channel": "the mean colour of the training images",
        "none": "nothing",
    }
    facts = {
        "Weights": f"{weights['file']}, SHA-256 {weights['sha256']}",
        "Architecture": f"{weights['arch']}, ReLU; {', '.join(report['tensors'])}",
        "Images": f"{images['train']} training and {images['held_out']} held out, of which {images['scored']} each "
        f"were compared; subtracted from them, as in training: {means[images['mean']]}",
        "Attacks": f"profile {report['profile']}, seed {report['seed']}",
        "Time": f"{report['seconds']:.0f} s on {report['device']}",
        "Software": ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
    }
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items()) + "</dl>"
