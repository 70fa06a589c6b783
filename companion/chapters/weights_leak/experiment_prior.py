"""Beyond the limits of independent components: separation with a prior learned on public
photographs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.common import (
    match_table,
    nulls_of,
    nulls_without_weights,
    rescored_table,
)
from companion.chapters.separation_common import public_rows
from companion.chapters.weights_leak.separation_prior import (
    Prior,
    PriorSettings,
    Span,
    pulled,
    separate_with_prior,
)
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.images.photos import at_side
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import one_to_one, target_decoy
from recon.training.denoiser import DenoiserSettings
from recon.training.inner_problem import DecaySettings, train_with_decay


class Metrics(Record):
    """One network, by two attacks: `components`, separation by independent components, and `found`,
    with the prior, begun there. n_train images of side × side, width · rank: directions searched ·
    public: photographs that the prior was learned from · blends: name of a null -> its matches
    above NCC 0.6 in one competition of training with held-out images.
    """


@dataclass(frozen=True, kw_only=True)
class PriorSizes:
    """Separation with a learned prior: a network with two hidden layers of `width` and biases in
    all, trained by `steps` of Adam with `weight_decay` on n_train images averaged down to side ×
    side · separation: how its sources are found · denoiser, attack: of the prior and of what is
    done with it.
    """

    n_train: int
    side: int
    width: int
    denoiser: DenoiserSettings
    steps: int = 600
    weight_decay: float = 1e-3
    separation: SeparationSettings = SeparationSettings()
    attack: PriorSettings = PriorSettings()


SIZES = {
    "smoke": PriorSizes(
        n_train=20,
        side=16,
        width=64,
        steps=100,
        separation=SeparationSettings(first_rank=8, iterations=40),
        denoiser=DenoiserSettings(channels=8, steps=20, batch=16),
        attack=PriorSettings(orthogonal=3, free=7),
    ),
    "laptop": PriorSizes(
        n_train=60, side=16, width=200, denoiser=DenoiserSettings(steps=650, step_size=2e-3)
    ),
    "paper": PriorSizes(
        n_train=500,
        side=32,
        width=1000,
        denoiser=DenoiserSettings(steps=2500, bfloat16=True),
        attack=PriorSettings(orthogonal=15, free=45),
    ),
}
# nulls whose preference for training images is measured
BLENDS = ("mixtures", "denoised", "photographs", "projected")


def compute(sizes: PriorSizes, context: Context) -> Outcome[Metrics]:
    """Train a network; learn the prior on photographs that are none of its own; attack in two
    ways.
    """
    everything = context.images(sizes.n_train)
    images = everything.at_side(sizes.side)
    public = at_side(context.pool.pixels(public_rows(everything, context)), sizes.side).to(
        images.train
    )
    mean = public.mean(0)  # theirs, since nobody releases that of the training images
    seen = public - mean
    network = MLP((images.dim, sizes.width, sizes.width, 1))
    theta = network.flatten(network.init(context.stream("kkt.weights"), "small")).to(images.train)
    settings = DecaySettings(sizes.weight_decay, sizes.steps)
    kept = context.checkpoints.at("training")
    theta_star = train_with_decay(network, images.train, images.y, theta, settings, kept)
    layer = FirstLayer.of(Weights(network, theta_star))
    sources = separate(layer, images.shape, sizes.separation, context.stream("separation.attack"))
    noise = context.stream("separation.noise")
    prior = Prior.of(seen, sizes.denoiser, noise, context.checkpoints.at("denoiser"))
    basis, generator = sources.basis, context.stream("separation.order")
    kept = context.checkpoints.at("attack")
    found = separate_with_prior(
        basis, sources.sources, images.shape, prior, sizes.attack, generator, kept
    )
    x_hat = torch.cat([found, -found])
    nulls = nulls_of(context, images, network, theta_star, 2 * len(basis), basis)
    nulls["denoised"] = denoised_mixtures(basis, images, prior, context.stream("kkt.noise"))
    nulls["projected"] = nulls["photographs"] @ basis.mT @ basis  # an adversary has both
    match = one_to_one(images.train, x_hat)
    order = match.score.argsort(descending=True)
    metrics = Metrics(
        n_train=len(images),
        side=sizes.side,
        width=sizes.width,
        rank=len(basis),
        public=len(public),
        components=match_table(sources.x_hat, images, nulls),
        found=match_table(x_hat, images, nulls),
        blends={
            name: target_decoy(nulls[name], images.train, images.held_out, 0.6) for name in BLENDS
        },
    )
    arrays = {
        "x_train": images.train[order],
        "x_hat": found,
        "matched": match.index[order],
        "ncc": match.score[order],
        "mean": images.mean,
        "train_index": images.train_index[order.cpu()],
        "heldout_index": images.held_out_index,
    }
    return Outcome(metrics, arrays)


def rescored(sizes: PriorSizes, context: Context, x_hat: Tensor) -> Record:
    """Matches of kept reconstructions (r, d), each with both signs, and of the nulls that need no
    weights.
    """
    images = context.images(sizes.n_train).at_side(sizes.side)
    both = torch.cat([x_hat, -x_hat])
    nulls = nulls_without_weights(context, images, sizes.width, len(both))
    return Record(found=rescored_table(both, images, nulls))


def denoised_mixtures(
    basis: Tensor, images: Bundle, prior: Prior, generator: torch.Generator
) -> Tensor:
    """As many candidates (2r, d) as the attack has, made with the prior and nothing of the layer
    but its span: one step from random directions of it.
    """
    span = Span.of(basis, images.shape, prior)
    w = torch.randn(2 * len(basis), len(basis), generator=generator).to(basis)
    return span.pixels(pulled(torch.nn.functional.normalize(w, dim=1), span, prior, generator))
