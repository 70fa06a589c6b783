"""Chapter 18: other activations; the second question is in `threat_models.py`.

The run's seed draws the images of the last question only: those of the first are the paper's victims.
"""

from __future__ import annotations

import torch

from recon.attacks.gradient_matching import cosine_tv_authors
from recon.attacks.rgap import rgap
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.leakage_beyond.metrics import Activations, Metrics
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.leakage_beyond.threat_models import threat_models
from recon.chapters.leakage_common import Attacked, Victims, pixels
from recon.nets.conv import SEED
from recon.released import Gradient
from recon.scoring.metrics import mse


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Two questions, one after the other."""
    found = Victims.of(context.pool)
    attacked = Attacked.of(sizes.network, context.pool)
    arrays = {"truth": pixels(found.x)}
    activated, by_activation = activations(attacked, found, sizes, context)
    threats, threatened = threat_models(context, sizes)
    metrics = Metrics(network=sizes.network, activations=activated, threat_models=threats)
    return Outcome(metrics, arrays | by_activation | threatened)


def activations(attacked: Attacked, found: Victims, sizes: Sizes, context: Context) -> tuple[Activations, Tensors]:
    """The same layers with Tanh, LeakyReLU and ReLU: R-GAP where it is defined, gradient matching for all."""
    images = {}
    for name in ("tanh", "leaky_relu", "relu"):
        network = attacked.network.with_activation(name)
        gradient = Gradient.of(network, attacked.theta, found.x, found.labels)
        if name != "relu":
            images[f"{name}, R-GAP"] = torch.cat([rgap(victim) for victim in gradient.split()])
        checkpoint = context.checkpoints.at(f"activation-{name}")
        single = gradient.to(torch.float32)
        matched = cosine_tv_authors(single, SEED, sizes.match_steps, checkpoint)
        images[f"{name}, matching"] = matched.x_hat.view_as(found.x)
    errors = {key: mse(x.double(), found.x).mean().item() for key, x in images.items()}
    table = Activations(
        tanh_rgap=errors["tanh, R-GAP"],
        tanh_matching=errors["tanh, matching"],
        leaky_relu_rgap=errors["leaky_relu, R-GAP"],
        leaky_relu_matching=errors["leaky_relu, matching"],
        relu_matching=errors["relu, matching"],
    )
    return table, {f"activation {key}": pixels(x) for key, x in images.items()}
