"""Where an attack ends, by where it starts: a start to drag over the grid of eq. (10), and pictures
of both.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from matplotlib.colors import to_hex
from torch import Tensor

from companion.chapters.elements import element, fragment, strip_uri
from companion.chapters.pictures import STARTS

KINDS = {"truth": "training image", "partition": "other photograph", "random": "noise"}
#: starts that a printed page shows -> their indices of λ₁ and λ₂
CORNERS = {"the training images": (-1, -1), "other photographs": (0, -1), "noise": (0, 0)}


def landing(
    grid: list[float],
    starts: Tensor,
    ends: Tensor,
    distances: tuple[Mapping[str, Tensor], Mapping[str, Tensor]],
    errors: tuple[Tensor, Tensor],
    shown: int = 4,
) -> str:
    """The element.

    Args:
        grid: the values of λ₁ and of λ₂, k of them.
        starts, ends (k·k, n, d): images in [0, 1], λ₁ the slower index, of which the first, the
            last and some between are shown.
        distances: of starts and of ends, to truth, partition and noise, (k·k,) each.
        errors: of the classifiers trained on starts and on ends, relative, (k·k,) each.
    """
    side = len(grid)
    picked = torch.linspace(0, starts.shape[1] - 1, shown).round().long()
    pictures = torch.cat([starts[:, picked], ends[:, picked]], dim=1).clamp(0, 1)
    begun, ended = (_rows(*pair) for pair in zip(distances, errors, strict=True))
    rows = list(zip(begun, ended, strict=True))
    nearest = torch.stack([distances[1][kind] for kind in KINDS]).argmin(0).tolist()
    body = fragment(
        Path(__file__).with_suffix(".html"),
        strip=strip_uri(pictures),
        alt=f"Pictures of {side**2} mixtures, a column each: the upper {shown} are starting images,"
        f" the lower {shown} what the attack makes of them, which looks much the same.",
        shown=shown,
        columns=(*KINDS.values(), "error of the classifier trained on them"),
        rows=rows,
        corners=[(words, (i % side) * side + j % side) for words, (i, j) in CORNERS.items()],
    )
    colours = [to_hex(STARTS[list(KINDS)[k]]) for k in nearest]
    return element(
        "landing",
        "Where the bilevel attack ends, by where it starts",
        body,
        {"grid": grid, "said": rows, "colours": colours},
        style=f"--frames: {side**2}; --rows: {2 * shown}",
        ask="Drag the starting point over the map, or move it by the arrow keys.",
        paper=(
            "On the web page the starting point moves over a map of the mixtures of eq. (10). Here"
            " are its corners."
        ),
    )


def _rows(distances: Mapping[str, Tensor], errors: Tensor) -> list[list[str]]:
    """What the table says of every start: three distances, and the error."""
    columns = [[f"{value:.1f}" for value in distances[kind].tolist()] for kind in KINDS]
    columns.append([_share(value) for value in errors.tolist()])
    return [list(row) for row in zip(*columns, strict=True)]


def _share(value: float) -> str:
    """An error of a classifier in percent, as precisely as it matters."""
    return f"{value:.0%}" if value > 0.01 else f"{value:.2%}" if value > 1e-4 else "below 0.01%"
