"""Chapter 18: other activations; the second question is in `threat_models.py`.

The run's seed draws the images of the last question only: those of the first are the paper's two and others of all
classes, the same at every seed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recon.attacks.gradient_matching import cosine_tv_authors
from recon.attacks.rgap import rgap
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.leakage_beyond.metrics import Activations, Metrics
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.leakage_beyond.threat_models import threat_models
from recon.chapters.leakage_common import Attacked, Victims, pixels
from recon.nets.conv import SEED
from recon.optim.loop import Checkpoints
from recon.released import Gradient
from recon.scoring.metrics import mse


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Two questions, one after the other."""
    victims = Victims.of_all_classes(context.pool, sizes.images)
    arrays = {"truth": pixels(victims.x)}
    activated = {}
    for name in sizes.networks:
        activated[name], shown = activations(name, victims, sizes, context)
        arrays |= {f"activation {name} {key}": pixels(x.clamp(-0.5, 0.5)) for key, x in shown.items()}
    threats, threatened = threat_models(context, sizes)
    grey = victims.x.square().flatten(1).mean(1).tolist()
    return Outcome(Metrics(activations=activated, grey=grey, threat_models=threats), arrays | threatened)


def activations(name: str, victims: Victims, sizes: Sizes, context: Context) -> tuple[Activations, Tensors]:
    """The same layers with Tanh, LeakyReLU and ReLU: R-GAP where it is defined, gradient matching for all."""
    attacked = Attacked.of(name, context.pool)
    by_rgap, matched = {}, {}
    for activation in ("tanh", "leaky_relu", "relu"):
        network = attacked.network.with_activation(activation)
        gradient = Gradient.of(network, attacked.theta, victims.x, victims.labels)
        if activation != "relu":
            by_rgap[activation] = torch.cat([rgap(victim) for victim in gradient.split()])
        kept = context.checkpoints.inside(f"activation-{name}-{activation}".replace(" ", "-"))
        matched[activation] = from_several_starts(gradient.to(torch.float32), sizes, kept).view_as(victims.x).double()
    table = Activations(
        rgap={each: mse(x, victims.x).tolist() for each, x in by_rgap.items()},
        matching={each: mse(x, victims.x).tolist() for each, x in matched.items()},
    )
    shown = {f"{each}, R-GAP": x for each, x in by_rgap.items()} | {
        f"{each}, matching": x for each, x in matched.items()
    }
    return table, shown


def from_several_starts(gradient: Gradient, sizes: Sizes, kept: Checkpoints) -> Tensor:
    """CosineTV as its authors run it; of each image's starts the one that ends at the lowest energy, (B, c·h·w)."""
    runs = [
        cosine_tv_authors(gradient, SEED + k, sizes.match_steps, kept.at(f"start-{k}")) for k in range(sizes.starts)
    ]
    lowest = torch.stack([run.energy for run in runs]).argmin(0)
    images = torch.stack([run.x_hat.flatten(1) for run in runs])
    return images[lowest, torch.arange(images.shape[1])]
