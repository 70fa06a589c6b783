"""Points of the map where a gradient is released; one function an experiment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from recon.chapters.published import PRE_TRAINED
from recon.nets.conv import TABLE_1, ConvNet
from recon.press.knowing.point import BLOCK, CONVOLUTIONS, EXACT, GRADIENT, Point, Reader, told

GREY = 1e-3  # mean squared error by which another image is another one
NEAR = 0.1  # of a grey image's error: an image that gradient matching finds
MATCHED = ("cosine_tv_both", "hybrid")  # CosineTV as its authors run it, Hybrid as published
#: null=0 by construction: no guess is exact, and a grey image is not within `NEAR` of its own error; other photographs
#: were not tried here
by_gradient = partial(Point, knowledge=GRADIENT, network=CONVOLUTIONS, null=0)


def _one_image(metrics: Any, config: Any) -> Iterator[Point]:
    """The gradient of one image, for the networks of Chen & Campbell's Table 1.  Other images are shown where the
    gradient leaves some free, and one that is found has the same gradient."""
    for name, about in metrics.networks.items():
        counts, other = about.counts, about.counterfactual
        yield by_gradient(
            experiment="leakage-identifiability",
            told=told(_parameters(TABLE_1[name]), 1),
            unknown=metrics.n_images,
            found=counts.found,
            sure=counts.known,
            others=not counts.determined and other.residual < EXACT and other.mse_to_victim > GREY,
        )


def _designs(metrics: Any, config: Any) -> Iterator[Point]:
    """Networks drawn at random, by Gauss–Newton."""
    for design in metrics.designs:
        yield by_gradient(
            experiment="leakage-designs",
            told=design.equations / design.unknowns,
            unknown=len(design.found),
            found=sum(design.found),
            sure=sum(found and known for found, known in zip(design.found, design.known, strict=True)),
        )


def _pre_trained(metrics: Any, config: Any) -> Iterator[Point]:
    """The two pre-trained networks of Chen & Campbell, by CosineTV as its authors run it, and by R-GAP."""
    for name, about in metrics.networks.items():
        if name.endswith(PRE_TRAINED):
            for method in ("cosine_tv_authors", "rgap"):
                if method in about.methods:
                    errors = [
                        math.inf if each is None else each.mse for each in about.methods[method].per_image.values()
                    ]
                    yield by_gradient(
                        experiment="leakage-attacks",
                        told=told(_parameters(TABLE_1[name.removesuffix(PRE_TRAINED)]), 1),
                        unknown=len(errors),
                        found=sum(error < NEAR * metrics.images.grey_mse for error in errors),
                    )


def _matched(metrics: Any, config: Any) -> Iterator[Point]:
    """Gradient matching, on Table 1."""
    for name, about in metrics.networks.items():
        for method in MATCHED:
            errors = [math.inf if error is None else error for error in about.methods[method].mse]
            yield by_gradient(
                experiment="leakage-matching",
                told=told(_parameters(TABLE_1[name]), 1),
                unknown=len(errors),
                found=sum(error < NEAR * grey for error, grey in zip(errors, metrics.grey, strict=True)),
            )


def _parameters(network: ConvNet) -> int:
    return sum(math.prod(shape) for shape in network.shapes().values())


def _batches(metrics: Any, config: Any) -> Iterator[Point]:
    """One mean gradient of a network with one convolution."""
    for cell in metrics.batches:
        yield by_gradient(
            experiment="leakage-batches",
            told=cell.equations / cell.unknowns,
            unknown=cell.n,
            found=cell.found,
            sure=cell.found if cell.certified else 0,
        )


def _compressed(metrics: Any, config: Any) -> Iterator[Point]:
    """The largest entries alone, by Gauss–Newton."""
    for row in metrics.compressed:
        yield by_gradient(
            experiment="leakage-defences", told=row.equations, unknown=metrics.n_images, found=row.largest_found
        )


def _blocks(metrics: Any, config: Any) -> Iterator[Point]:
    """Networks with a residual block and batch norm, by Gauss–Newton."""
    images = len(metrics.grey)
    for block in metrics.blocks:
        yield by_gradient(
            experiment="leakage-limits",
            network=BLOCK,
            told=block.equations / block.unknowns,
            unknown=images,
            found=block.found,
            sure=block.known - block.falsely_known,
        )


GRADIENTS: dict[str, Reader] = {
    "leakage-identifiability": _one_image,
    "leakage-designs": _designs,
    "leakage-attacks": _pre_trained,
    "leakage-matching": _matched,
    "leakage-batches": _batches,
    "leakage-defences": _compressed,
    "leakage-limits": _blocks,
}

__all__ = ["GRADIENTS"]
