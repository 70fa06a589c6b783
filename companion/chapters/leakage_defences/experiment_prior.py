"""Appendix E: the same noise, and an adversary who knows mean and covariance of public
photographs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import PRIOR, Victims, inputs, pixels
from companion.chapters.leakage_defences.experiment import (
    SMALL,
    AttackSizes,
    GaussianPrior,
    averaged,
    by_noise,
    map_estimate,
    released,
)
from companion.chapters.tables import packed
from companion.store.record import Record
from recon.images.pool import ImagePool
from recon.scoring.metrics import mse, ncc


class Metrics(Record):
    """noise: by network · grey, mean: error of a grey image, and of the mean of the public ones,
    for each image · mean_ncc: of that mean with each image · n_public: images that the prior is
    estimated from, of the last network.

    noise: One network at one z, attacked with the prior of public photographs. mse: of the most
    probable image, for each image · ncc: with the image · own: images whose reconstruction has a
    larger NCC with them than with every public image · blind, blind_ncc: error and NCC of the most
    probable image of the same noisy gradient for the adversary who takes every pixel by itself.
    """


PAPER = AttackSizes(
    networks=(*SMALL, "CNN2 V1"),
    images=20,
    table_images=3,
    noise=(1e-2, 3e-2, 1e-1, 3e-1, 6e-1, 1.0, 3.0),
    table_noise=(3e-2, 1e-1, 3e-1, 1.0),
)
SIZES = {
    "smoke": replace(PAPER, networks=SMALL, images=1, noise=(1e-2, 1e-1, 1.0)),
    "laptop": replace(PAPER, networks=SMALL, images=2),
    "paper": PAPER,
}


def compute(sizes: AttackSizes, context: Context) -> Outcome[Metrics]:
    """Both adversaries on the same noisy gradients, which are those of
    `companion.chapters.leakage_defences`.
    """
    noise, arrays = by_noise(prior_unit, sizes, context)
    grey, mean, mean_ncc = {}, {}, {}
    for name in sizes.networks:
        victims = sizes.victims(name, context.pool)
        x, public = victims.x, public_images(context.pool, victims, name)
        middle = public.mean(0, keepdim=True)
        grey[name] = victims.grey
        mean[name] = mse(middle.expand_as(x), x).tolist()
        mean_ncc[name] = ncc(x.flatten(1), middle.flatten(1))[:, 0].tolist()
        arrays |= {f"truth {name}": pixels(x), f"mean {name}": pixels(middle)}
    metrics = Metrics(
        noise=noise,
        grey=grey,
        mean=mean,
        mean_ncc=mean_ncc,
        n_public=len(public),
    )
    return Outcome(metrics, arrays)


def public_images(pool: ImagePool, victims: Victims, name: str) -> Tensor:
    """All others of the pool, as large as a network wants them."""
    return averaged(inputs(pool, np.flatnonzero(~np.isin(pool.index, victims.index))), name)


def prior_unit(sizes: AttackSizes, context: Context, unit: str) -> Tensors:
    """One network at one z against the truth and every public image: most probable images, with and
    without the prior.
    """
    name, z = unit.split("--")
    victims = sizes.victims(name, context.pool)
    public = public_images(context.pool, victims, name)
    noisy = released(name, z, victims, context)

    def guess(prior: GaussianPrior | float) -> Tensor:
        images = [map_estimate(sent, sigma, prior).x for sent, sigma in noisy]
        return torch.stack(images).view_as(victims.x)

    guesses, blind = guess(GaussianPrior.of(public)), guess(PRIOR)
    flat, flat_blind, truth = guesses.flatten(1), blind.flatten(1), victims.x.flatten(1)
    alike = ncc(flat, truth).diagonal()
    row = Record(
        z=float(z),
        mse=mse(flat, truth).tolist(),
        ncc=alike.tolist(),
        own=int((alike > ncc(flat, public.flatten(1)).amax(1)).sum()),
        blind=mse(flat_blind, truth).tolist(),
        blind_ncc=ncc(flat_blind, truth).diagonal().tolist(),
    )
    return {**packed(row), "x_hat": guesses, "blind": blind}
