"""The walk as a page element: a slider whose every place is a training set of the same classifier;
no kernel needed.
"""

from pathlib import Path

import torch
from torch import Tensor

from companion.chapters.elements import element, fragment, strip_uri
from companion.chapters.landscape.experiment_bilevel import BOXED
from companion.chapters.landscape.experiment_bilevel import Metrics as BilevelMetrics
from companion.store.results import Result

ROWS = 8  # images shown: two lines of four
ON_PAPER = 7  # frames, a row each


def walk(result: Result[BilevelMetrics]) -> str:
    """The slider for a result of `landscape-bilevel`: both legs with pixels in [0, 1] as one,
    without the frame that they share.
    """
    legs = [
        (result.array(f"walk_{name}_frames"), result.array(f"walk_{name}_error")) for name in BOXED
    ]
    pictures, error = (torch.cat([first, second[1:]]) for first, second in zip(*legs, strict=True))
    return walk_html(pictures[:, :ROWS], error.tolist(), result.metrics.connection.n)


def walk_html(pictures: Tensor, error: list[float], n: int) -> str:
    """Frames (f, k, d) in [0, 1] from one data set over another to noise, with the retraining error
    of each;

    One strip: a column a frame, a row an image. Without scripts it is shown as it is; with them,
    one column at a time.

    Args:
        n: images of each set.
    """
    frames, rows = pictures.shape[:2]
    printed = torch.linspace(0, frames - 1, min(ON_PAPER, frames)).round().int().tolist()
    most = f"{max(error):.0e}"
    body = fragment(
        Path(__file__).with_suffix(".html"),
        strip=strip_uri(pictures),
        alt=f"{frames} training sets of one classifier, a column each, {rows} of their {n} images:"
        " photographs of the training set turn into other photographs, and those into noise.",
        frames=frames,
        rows=rows,
        places="|".join(place(k, frames, value) for k, value in enumerate(error)),
        most=most,
        printed=printed,
    )
    return element(
        "walk",
        "Training sets of one classifier",
        body,
        style=f"--frames: {frames}; --rows: {rows}",
        ask="Move the slider, from the training set to other photographs and on to noise.",
        paper=(
            f"On the web page a slider walks through {frames} training sets. Here are"
            f" {len(printed)} of them, from the training set over other photographs to noise. The"
            f" classifiers retrained on them differ by at most {most} (relative)."
        ),
    )


def place(k: int, frames: int, error: float) -> str:
    """Where frame k of two legs of equal length is, in words."""
    half = (frames - 1) / 2
    share = k / half if k <= half else k / half - 1
    way = "from the training set to other photographs" if k <= half else "from there to noise"
    return (
        f"{share:.0%} of the way {way}; retrained from scratch, the classifier differs by"
        f" {error:.0e} (relative)"
    )
