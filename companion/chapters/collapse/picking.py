"""Which photograph could stand for all training images? Pick one and see the objective of eq. (3)
with it alone.
"""

from pathlib import Path
from typing import Any

from companion.chapters.elements import element, fragment, seen_uri
from companion.store.results import Result


def picking(result: Result[Any]) -> str:
    """The element for a run that was just computed, with some of its held-out images."""
    truth = result.metrics.objective_true
    images = result.array("x_held_out")
    every = result.array("objective_held_out")
    objectives = every[:: len(every) // len(images)][: len(images)].tolist()
    tiles = [
        {"image": seen_uri(image), "objective": f"{alone:.0e}", "below": alone <= truth}
        for image, alone in zip(images, objectives, strict=True)
    ]
    below = ", ".join(str(k) for k, tile in enumerate(tiles, start=1) if tile["below"])
    body = fragment(
        Path(__file__).with_suffix(".html"),
        tiles=tiles,
        n=result.metrics.n_train,
        truth=f"{truth:.0e}",
        below=below or "none",
    )
    return element(
        "picking",
        "Pick a photograph that replaces the training images",
        body,
        ask="None of these photographs was trained on. Which can replace the training images?",
    )
