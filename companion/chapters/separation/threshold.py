"""A threshold to drag: how many training images count as found, and how many would count without an attack."""

from __future__ import annotations

from matplotlib.colors import to_hex

from companion.chapters.elements import element
from companion.chapters.pictures import FREE, HELD_OUT, TRAIN
from companion.chapters.separation.experiment import Metrics
from companion.chapters.separation.story import matched
from companion.store.results import Result

LOW = 0.3  # left end of the axis


def threshold(result: Result[Metrics], start: float = 0.7) -> str:
    """The element for a result of `separation`, the threshold at `start`."""
    train, held = (matched(result, key)[2] for key in ("x_train", "x_held_out"))
    free = result.array("null_envelope")  # of the null that is best at each threshold, as the tables have it
    kinds = [
        (TRAIN, "", "training images, recovered", train),
        (HELD_OUT, "7 4", "held-out images, same candidates", held),
        (FREE, "2 3", "training images, without an attack", free),
    ]
    data = {
        "n": len(train),
        "low": LOW,
        "kinds": [
            {"colour": to_hex(c), "dash": d, "label": label, "values": [round(v, 3) for v in values.tolist()]}
            for c, d, label, values in kinds
        ],
    }
    counts = ", ".join(f"{int((values > start).sum())} {label}" for _, _, label, values in kinds)
    body = (
        '<div class="stage" hidden></div>'
        f'<input type="range" min="{LOW}" max="1" step="0.01" value="{start}" hidden '
        'aria-label="Threshold of the correlation (NCC)">'
        f'<p class="said" role="status">Above {start}, of {len(train)}: {counts}.</p>'
    )
    return element(
        "threshold",
        "How many images lie above a threshold",
        body,
        data,
        ask="Drag the threshold, or move the slider below.",
        paper="On the web page the threshold, the black line, can be moved, and the counts follow.",
    )
