"""Where an attack ends, by where it starts: a start to drag over the grid of eq. (10), and pictures
of both.
"""

from __future__ import annotations

import html
from collections.abc import Mapping

import torch
from matplotlib.colors import to_hex
from torch import Tensor

from companion.chapters.elements import element, strip_uri
from companion.chapters.pictures import STARTS

KINDS = {"truth": "training image", "partition": "other photograph", "random": "noise"}
#: starts that a printed page shows -> their indices of λ₁ and λ₂
CORNERS = {"the training images": (-1, -1), "other photographs": (0, -1), "noise": (0, 0)}
ROWS = ("start", "end")


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
    rows = [_rows(each, error) for each, error in zip(distances, errors, strict=True)]
    nearest = torch.stack([distances[1][kind] for kind in KINDS]).argmin(0).tolist()
    colours = [to_hex(STARTS[list(KINDS)[k]]) for k in nearest]
    data = {
        "grid": grid,
        "said": [[own[k] for own in rows] for k in range(side**2)],
        "colours": colours,
    }

    def place(i: int, j: int) -> int:
        return (i % side) * side + j % side

    first = place(*CORNERS["the training images"])
    alt = (
        f"Pictures of {side**2} starts, a column each: the upper {shown} are images of the start,"
        f" the lower {shown} what the attack makes of them, which looks much the same."
    )
    body = (
        f'<img class="strip" src="{strip_uri(pictures)}" alt="{html.escape(alt)}"><div'
        ' class="panels ask"><div class="stage"'
        f' hidden></div>{_pictures(first, shown, "hidden")}</div><div class="ask"><p class="said"'
        ' role="status">Started at the training'
        f" images.</p>{_table([own[first] for own in rows])}</div>"
        + "".join(
            f'<div class="paper"><p>Started at {words}.</p>{_pictures(place(*at), shown)}'
            f"{_table([own[place(*at)] for own in rows])}</div>"
            for words, at in CORNERS.items()
        )
    )
    return element(
        "landing",
        "Where the bilevel attack ends, by where it starts",
        body,
        data,
        style=f"--frames: {side**2}; --rows: {2 * shown}",
        ask="Drag the start over the map, or move it by the arrow keys.",
        paper=(
            "On the web page the start can be moved over a map of the mixtures of eq. (10). Here"
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


def _pictures(frame: int, shown: int, hidden: str = "") -> str:
    """Two rows of tiles, of the start and of its end."""
    rows = "".join(
        f'<div class="row"><span class="name">{name}</span>'
        + "".join(
            f'<span class="tile" style="--row: {shown * k + j}"></span>' for j in range(shown)
        )
        + "</div>"
        for k, name in enumerate(ROWS)
    )
    label = f"{shown} images of the start, and below them what the attack makes of them"
    return (
        f'<div class="tiles" role="img" aria-label="{label}" style="--frame: {frame}"'
        f" {hidden}>{rows}</div>"
    )


def _table(rows: list[list[str]]) -> str:
    """A row for the start, and one for the end."""
    names = (*KINDS.values(), "error of the classifier trained on them")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{value}</td>" for value in row) + "</tr>"
        for name, row in zip(ROWS, rows, strict=True)
    )
    caption = "Mean distance to the nearest image of each kind"
    return f"<table><caption>{caption}</caption><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"  # noqa: E501
