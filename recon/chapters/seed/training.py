"""Networks whose start is kept: what the adversaries of chapter 19 know something of."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recon.chapters.base import Context
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP
from recon.optim.streams import named
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


def random_features(context: Context, images: Bundle, width: int) -> tuple[Weights, float]:
    """θ* and θ⁰ of ReLU features of random directions, and the mean squared error that is left.

    V (width, d) ~ N(0, 1/r²), r the root mean square size of an image, so that features are of order one; not trained.
    The last layer starts at PyTorch's default and ends where gradient descent on the squared error of labels ±1 from
    there ends: θ* = θ⁰ + Φᵀ (Φ Φᵀ)⁻¹ (y − Φ θ⁰), with features Φ (n, width) of rank n.
    """
    generator = named(context.seed, "seed.features")
    network = MLP((images.dim, width, 1), bias=(False, False))
    theta = network.init(generator)
    size = images.train.square().sum(1).mean().sqrt()
    theta["w1"] = (torch.randn(width, images.dim, generator=generator) / size.cpu()).to(images.train)
    theta["w2"] = theta["w2"].to(images.train)
    features = (images.train @ theta["w1"].mT).relu().double()
    wanted = 2 * images.y.double() - 1
    start = theta["w2"][0].double()
    moved = torch.linalg.lstsq(features, (wanted - features @ start)[:, None], driver="gelsd").solution[:, 0]
    ended = {"w1": theta["w1"], "w2": (start + moved)[None].to(images.train)}
    loss = (features @ (start + moved) - wanted).square().mean().item()
    return Weights(network, network.flatten(ended), network.flatten(theta)), loss


def flat(module: nn.Sequential) -> Tensor:
    """All parameters (p,), in the order of `MLP.shapes`."""
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def nearly(weights: Weights, noise: float, generator: torch.Generator) -> Weights:
    """The same with an error in θ⁰ (p,): `noise` times a fresh draw from the distribution of the start."""
    assert weights.theta_init is not None
    drawn = weights.network.flatten(weights.network.init(generator)).to(weights.theta_init)
    return Weights(weights.network, weights.theta_star, weights.theta_init + noise * drawn)
