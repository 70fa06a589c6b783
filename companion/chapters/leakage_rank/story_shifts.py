"""The sentence that full rank is a local statement."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_rank.experiment_shifts import Metrics, Sizes
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.results import Claim, Result


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """Several images of full rank with one gradient; without pooling there is one."""
    pooled, flat = metrics.pooled, metrics.flat
    verdict = "finding" if pooled.distinct > flat.distinct else "not reproduced"
    full = pooled.certificate == flat.certificate == "local"
    return [
        claim(
            "full-rank-is-local",
            {**metrics, "starts": sizes.starts},
            verdict=verdict if full else "undecided",
            value=float(pooled.distinct),
            null_value=float(flat.distinct),
        )
    ]


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """All that there are."""
    return {name: levels(images) for name, images in arrays.items()}


@photographs
def plot_shifts(result: Result[Metrics]) -> Figure:
    """A digit, and all images that have its gradient by the two networks."""
    words = {"truth": "the image", "flat": "without pooling", "pooled": "with pooling"}
    return image_rows([(words[name], result.figure(name), "black") for name in words])


FIGURES = {"shifts": plot_shifts}
