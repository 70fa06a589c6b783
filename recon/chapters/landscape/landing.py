"""Where an attack ends, by where it starts: a start to drag over the grid of eq. (10)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recon.chapters.elements import bytes_of, element
from recon.chapters.landscape.metrics import BilevelMetrics, DecorecoMetrics
from recon.store.results import Result

KINDS = ("truth", "partition", "random")
DISTANCE = "Mean distance of the end to the nearest"
#: starts that a printed page shows -> their indices of λ₁ and λ₂
CORNERS = {"the training images": (-1, -1), "other photographs": (0, -1), "noise": (0, 0)}


def landing(bilevel: Result[BilevelMetrics], decoreco: Result[DecorecoMetrics]) -> str:
    """The element: end points of the bilevel attack and of DecoReco's, by both shares; pictures of one start."""
    frames = bilevel.array("walk_box_partition_frames")  # from the training set to other photographs
    noise = torch.rand(frames.shape[-1], generator=torch.Generator().manual_seed(0))
    m, v = bilevel.metrics, decoreco.metrics.variants
    attacks: dict[str, Mapping[str, list[list[float]]]] = {
        "bilevel": {kind: getattr(m.distance, kind) for kind in KINDS},
        "DecoReco, the published recipe, unfinished": {kind: getattr(v.recipe.distance, kind) for kind in KINDS},
        "DecoReco, our attack": {kind: getattr(v.unprojected.distance, kind) for kind in KINDS},
    }
    return landing_html(m.lambda1, attacks, (frames[0, 0], frames[-1, 0], noise))


def landing_html(
    grid: list[float],
    attacks: Mapping[str, Mapping[str, list[list[float]]]],
    images: tuple[Tensor, Tensor, Tensor],
) -> str:
    """grid: values of λ₁ and of λ₂ · attacks: name -> distances of the end to truth, partition and noise, [λ₁][λ₂]
    each · images (d,) in [0, 1]: a training image, another photograph, noise."""
    data = {
        "grid": grid,
        "attacks": [{"distances": [each[kind] for kind in KINDS]} for each in attacks.values()],
        "images": [bytes_of(image, 0.0, 1.0) for image in images],
    }
    body = (
        '<div class="panels ask"><div class="stage" hidden></div><div>'
        '<canvas class="mixed" width="32" height="32" role="img" aria-label="One image of the start" hidden></canvas>'
        '<p class="said" role="status">Started at the training images.</p>'
        + _table(attacks, (-1, -1), DISTANCE)
        + "</div></div>"
        + "".join(
            f'<div class="paper">{_table(attacks, at, f"Started at {words}: {DISTANCE.lower()}")}</div>'
            for words, at in CORNERS.items()
        )
    )
    return element(
        "landing",
        "Where attacks end, by where they start",
        body,
        data,
        ask="Drag the start over the map, or move it by the arrow keys.",
        paper="On the web page the start can be moved over a map of the mixtures of eq. (10). Here are its corners.",
    )


def _table(attacks: Mapping[str, Mapping[str, list[list[float]]]], at: tuple[int, int], caption: str) -> str:
    """A row for each attack, from the start with these indices of λ₁ and λ₂."""
    i, j = at
    rows = "".join(
        f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{each[kind][i][j]:.1f}</td>" for kind in KINDS) + "</tr>"
        for name, each in attacks.items()
    )
    return (
        f'<table><caption>{caption}</caption><thead><tr><th scope="col">attack</th>'
        '<th scope="col">training image</th><th scope="col">other photograph</th><th scope="col">noise</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )
