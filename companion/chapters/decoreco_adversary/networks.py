"""Chapter 7's networks, each trained and attacked by itself: candidates, evidence, and which of them are true.

The adversary sees weights and has photographs of their own.  Truth is noted beside the evidence, for scoring, and for
those networks on which the adversary practises.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.common import train_released
from companion.chapters.decoreco_adversary.evidence import evidence, sharpness
from companion.chapters.decoreco_adversary.sizes import Sizes
from companion.chapters.separation_common import TRUE_NCC
from recon.attacks.recover import energy_gradient, recover
from recon.attacks.separation import FirstLayer, separate
from recon.images.bundle import Bundle
from recon.images.partitions import centre
from recon.released import Weights
from recon.scoring.metrics import ncc
from recon.scoring.naturalness import Photographs, signs

PHOTOGRAPHS = 500  # the adversary's, at most, and at most a third of what nobody trains on
OTHERS = 3000  # at most
MORE = 100  # first number of the networks of more images
SEPARATION = 1000  # first number of the draws of separation; DecoReco's are the network's


@dataclass(frozen=True)
class Outside:
    """Images that no network of this experiment is trained on, uncentred: `own` (k, d) of the adversary, from which
    they learn what photographs look like · `others` (o, d), for scoring."""

    own: Tensor
    others: Tensor

    @staticmethod
    def of(context: Context, sizes: Sizes) -> Outside:
        """Drawn by the seed from what is left of the pool."""
        sets = (context.datasets(n, sizes.networks, n) for n in (sizes.n_train, sizes.more_n))
        used = torch.cat([data.train.index for each in sets for data in each])
        free = (~torch.isin(torch.from_numpy(context.pool.index), used)).nonzero()[:, 0]
        free = free[torch.randperm(len(free), generator=context.stream("separation.others"))]
        images = context.pool.pixels(free[: PHOTOGRAPHS + OTHERS].numpy()).flatten(1).to(context.device)
        own = min(PHOTOGRAPHS, len(images) // 3)
        return Outside(images[:own], images[own : own + OTHERS])

    def photographs(self, shape: tuple[int, ...]) -> Photographs:
        """What the adversary calls natural; they subtract the mean of their own."""
        return Photographs.of(centre(self.own, self.own.mean(0)), shape)


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """Candidates of network "few-K", on n_train images, by DecoReco; or "more-K", on more_n, by separation."""
    kind, number = name.split("-")
    k, n = int(number) + MORE * (kind == "more"), sizes.n_train if kind == "few" else sizes.more_n
    images = Bundle.of(context.datasets(n, sizes.networks, n)[int(number)], context.device)
    outside = Outside.of(context, sizes)
    released = train_released(context, images, sizes.width, sizes.steps(n), k)
    stream = context.stream("kkt.attack_again", SEPARATION + k)
    found = separate(FirstLayer.of(released.weights), images.shape, sizes.separation, stream)
    if kind == "few":
        part = decoreco(sizes, context, images, outside, released.weights, found.sources, k)
    else:
        said = {"sparsity": found.sparsity, "stability": found.stability, "share": found.share}
        part = {**said, **described(found.sources, images, outside, either_sign=True)}
    return {**part, "mean": images.mean, "x_train": images.train}


def decoreco(
    sizes: Sizes, context: Context, images: Bundle, outside: Outside, weights: Weights, sources: Tensor, k: int
) -> Tensors:
    """DecoReco's candidates with all evidence.

    separated: the largest |NCC| with an image that separation finds in the same weights, `sources` (r, d).
    """
    stream = context.stream("kkt.attack_again", k)
    found = recover(weights, sizes.attack, stream, context.checkpoints.inside(f"attack-{k}"))
    margins = found.labels * weights.network(weights.params, found.x_hat)
    curvature = sharpness(energy_gradient(weights, found, sizes.attack), found.x_hat)
    return {
        **evidence(found, margins, curvature),
        "separated": _likeness(found.x_hat, sources, either_sign=True).amax(1),
        **described(found.x_hat, images, outside, either_sign=False),
    }


def described(x: Tensor, images: Bundle, outside: Outside, either_sign: bool) -> Tensors:
    """Of candidates x (m, d): whether they look natural, two of the signs by which that is judged, the NCC with the
    nearest training image, which image that is, and the largest NCC with one that nobody trained on; (m,) each."""
    to_train = _likeness(x, images.train, either_sign).max(1)
    looks = signs(x, images.shape)
    return {
        "x_hat": x,
        "natural": outside.photographs(images.shape).look_like(x),
        "smoothness": looks["smoothness"],
        "edges": looks["edges"],
        "ncc": to_train.values,
        "image": to_train.indices,
        "other": _likeness(x, centre(outside.others, images.mean), either_sign).amax(1),
    }


def is_true(about: Tensors) -> Tensor:
    """(m,) bool: NCC above `TRUE_NCC` with a training image, and larger than with any image nobody trained on."""
    return (about["ncc"] > TRUE_NCC) & (about["ncc"] > about["other"])


def _likeness(x: Tensor, images: Tensor, either_sign: bool) -> Tensor:
    """NCC (m, n), or its size where the sign is unknown; one column of zeros for no images."""
    if not len(images):
        return x.new_zeros(len(x), 1)
    return ncc(x, images).abs() if either_sign else ncc(x, images)
