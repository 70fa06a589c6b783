"""Networks whose start is kept: what the adversaries of appendix G know something of."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from companion.chapters.base import Context
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP
from recon.optim.rng import named
from recon.released import Weights
from recon.training.recipes import Recipe, Trained, build, train

#: full batches, so that every step is a sum of gradients at the training images; steps so small, and an end so early,
#: that the network moves little: that is what the tangent attack supposes
HABITS = {"gd": {"optimiser": "sgd", "lr": 0.01}, "adam": {"optimiser": "adam", "lr": 1e-3}}
STOP_LOSS = 0.01


def trained_from(
    context: Context, images: Bundle, width: int, depth: int, optimiser: str, steps: int
) -> tuple[Weights, Trained]:
    """A network of `depth` linear layers from PyTorch's default start, without weight decay, to a
    loss of `STOP_LOSS` or for so many steps; θ* and θ⁰, both whole."""
    habits = HABITS[optimiser]
    recipe = Recipe(
        width=width,
        depth=depth,
        optimiser=str(habits["optimiser"]),
        lr=float(habits["lr"]),  # type: ignore[arg-type]
        batch=None,
        weight_decay=0.0,
        cosine=False,
        steps=steps,
        stop_loss=STOP_LOSS,
    )
    module = build(recipe, images.dim, named(context.seed, "seed.weights"))
    theta_init = flat(module)
    trained = train(recipe, images.train, images.y, named(context.seed, "seed.training"), module=module)
    network = MLP((images.dim, *[width] * (depth - 1), 1))
    return Weights(network, flat(trained.module), theta_init.to(images.train)), trained


def flat(module: nn.Sequential) -> Tensor:
    """All parameters (p,), in the order of `MLP.shapes`."""
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def nearly(weights: Weights, noise: float, generator: torch.Generator) -> Weights:
    """The same with an error in θ⁰ (p,): `noise` times a fresh draw from the distribution of the start."""
    assert weights.theta_init is not None
    drawn = weights.network.flatten(weights.network.init(generator)).to(weights.theta_init)
    return Weights(weights.network, weights.theta_star, weights.theta_init + noise * drawn)
