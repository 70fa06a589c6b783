"""How sure the adversary can be: calibrated on networks of their own, assessed on those that are attacked."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.common import ReleasedNet, train_released
from companion.chapters.separation.sizes import Sizes
from companion.chapters.separation_common import is_true, others_of
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, Separated, separate
from recon.images.bundle import Bundle
from recon.scoring.certainty import assessed, calibrated, probability

SHADOW_OFFSET = 500  # of the adversary's networks: added to their number of images


def first_layer(released: ReleasedNet) -> Tensor:
    """w1 (h, d) of a released network."""
    return released.network.unflatten(released.theta_star)["w1"]


def certainty(sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, found: Separated) -> Record:
    """Calibrated on shadow networks, trained on the other partition; assessed on this network and on one that holds
    more images, where separation begins to fail."""
    model = calibrated([attacked(sizes, context, n, shadow=True) for n in sizes.shadow_n])
    judged = {sizes.n_train: (found, truth(context, images, found))}
    judged |= {n: attacked(sizes, context, n) for n in sizes.harder_n}
    said = {n: (probability(model, each), true) for n, (each, true) in judged.items()}
    probabilities, true = (torch.cat([pair[k] for pair in said.values()]) for k in (0, 1))
    return Record(
        **assessed(probabilities, true),
        networks={f"n = {n}": Record(assessed(p, true)) for n, (p, true) in said.items()},
    )


def attacked(sizes: Sizes, context: Context, n: int, shadow: bool = False) -> tuple[Separated, Tensor]:
    """What is separated from a network of n images, and which of it is true (r,); a shadow network is trained on the
    adversary's own."""
    images = context.images(n, swapped=shadow)
    released = train_released(context, images, sizes.width, sizes.steps(n), SHADOW_OFFSET + n if shadow else n)
    layer = FirstLayer(first_layer(released))
    found = separate(layer, images.shape, sizes.attack, context.stream("separation.attack"))
    return found, truth(context, images, found)


def truth(context: Context, images: Bundle, found: Separated) -> Tensor:
    """By the images and others that nobody trained on."""
    return is_true(found.sources, images.train, others_of(context, images.train_index, images.mean))
