"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes
it.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays, match_table, nulls_of, train_released
from companion.chapters.separation_common import fast_ica_rows, is_true, others_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.separation import (
    FirstLayer,
    Separated,
    SeparationSettings,
    derivatives,
    separate,
)
from recon.images.bundle import Bundle
from recon.released import Weights
from recon.scoring.certainty import assessed, calibrated, probability
from recon.scoring.matching import one_to_one, padded


class Metrics(Record):
    """The network, what separation finds in it, and how sure the adversary can be. rank: directions
    searched. With the fields of `MatchTable`.

    simpler.FastICA: Training images with a candidate of their own, by scikit-learn's FastICA as it
    comes. certainty: How good the adversary's probabilities are, see
    `recon.scoring.certainty.assessed`, pooled over all networks that were assessed; networks: of
    each by name.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A net trained for `train_steps` into the KKT regime · attack: of the separation · shadow_n,
    harder_n: images in the adversary's own networks, on which certainty is calibrated, and in
    those, beside the first, on which it is assessed; steps grow with them.
    """

    n_train: int
    width: int
    train_steps: int
    attack: SeparationSettings
    shadow_n: tuple[int, ...]
    harder_n: tuple[int, ...]


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        shadow_n=(20, 40),
        harder_n=(40,),
    ),
    "laptop": Sizes(
        n_train=100,
        width=1000,
        train_steps=450,
        attack=SeparationSettings(restarts=2),
        shadow_n=(100, 150),
        harder_n=(150,),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=SeparationSettings(growth=1.05, restarts=4),
        shadow_n=(200, 500),
        harder_n=(200,),
    ),
}
SHADOW_OFFSET = 500  # of the adversary's networks: added to their number of images


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Train, separate, count; the same by FastICA; and how sure the adversary can be."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    start = time.perf_counter()
    separated = _separate(sizes, context, images, released)
    seconds = time.perf_counter() - start
    x_hat = separated.x_hat
    basis = separated.basis
    nulls = nulls_of(context, images, released.network, released.theta_star, len(x_hat), basis)
    ica = fast_ica(basis, images.shape, context.seed)
    by_ica = match_table(torch.cat([ica, -ica]), images, nulls)
    metrics = Metrics(
        **flat(match_table(x_hat, images, nulls)),
        n_train=len(images.train),
        width=sizes.width,
        recon_seconds=round(seconds, 2),
        rank=len(basis),
        simpler=Record(FastICA=Record(matches=by_ica.matches)),
        certainty=certainty(sizes, context, images, separated),
    )
    arrays = {"x_hat": x_hat, **kept_arrays(images), **best_null_images(images.train, nulls)}
    return Outcome(metrics, arrays)


def _separate(sizes: Sizes, context: Context, images: Bundle, released: Weights) -> Separated:
    generator = context.stream("separation.attack")
    return separate(FirstLayer.of(released), images.shape, sizes.attack, generator)


def certainty(sizes: Sizes, context: Context, images: Bundle, separated: Separated) -> Record:
    """Calibrated on shadow networks, trained on the other partition; assessed on this network and
    on one that holds more images, where separation begins to fail.
    """
    model = calibrated([attack(sizes, context, n, shadow=True) for n in sizes.shadow_n])
    networks = {sizes.n_train: (separated, truth(context, images, separated))}
    networks |= {n: attack(sizes, context, n) for n in sizes.harder_n}
    probabilities = {n: probability(model, candidates) for n, (candidates, _) in networks.items()}
    true = {n: flags for n, (_, flags) in networks.items()}
    return Record(
        **assessed(torch.cat(list(probabilities.values())), torch.cat(list(true.values()))),
        networks={f"n = {n}": assessed(probabilities[n], true[n]) for n in networks},
    )


def attack(
    sizes: Sizes, context: Context, n: int, shadow: bool = False
) -> tuple[Separated, Tensor]:
    """What is separated from a network of n images, and which of it is true (r,); a shadow network
    is trained on the adversary's own.
    """
    images = context.images(n, swapped=shadow)
    steps = sizes.train_steps * n // sizes.n_train
    offset = SHADOW_OFFSET + n if shadow else n
    released = train_released(context, images, sizes.width, steps, offset)
    separated = _separate(sizes, context, images, released)
    return separated, truth(context, images, separated)


def truth(context: Context, images: Bundle, separated: Separated) -> Tensor:
    """By the images and others that nobody trained on."""
    return is_true(
        separated.sources, images.train, others_of(context, images.train_index, images.mean)
    )


def best_null_images(train: Tensor, nulls: Tensors) -> Tensors:
    """For every training image (n, d) the candidate that costs nothing which is assigned to it, of
    the null whose best ten are best; and the upper envelope (n,) of all nulls' sorted NCC: as many
    of it are above a threshold as of the null that is best there.
    """
    n = len(train)
    matches = {name: one_to_one(train, padded(x, n)) for name, x in nulls.items()}
    curves = {name: match.score.sort(descending=True).values for name, match in matches.items()}
    best = max(curves, key=lambda name: curves[name][:10].sum().item())
    return {
        "x_null": padded(nulls[best], n)[matches[best].index],
        "x_null_ncc": matches[best].score,
        "null_envelope": torch.stack(list(curves.values())).amax(0),
    }


def fast_ica(basis: Tensor, shape: tuple[int, ...], seed: int) -> Tensor:
    """Sources (r, d) by scikit-learn's FastICA on the derivatives of the basis (r, d), as it
    comes.
    """
    rows = fast_ica_rows(derivatives(basis.cpu(), shape).flatten(1), seed, tol=1e-3)
    return rows.to(basis) @ basis
