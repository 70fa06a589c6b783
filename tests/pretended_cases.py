"""Every attack and every trainer at its smallest, for `test_pretended_device`.

A case, a function of a number of steps and of `put`, runs so many from inputs that `put` moves.  It
is named by its function, then "__" and which of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from small_networks import (
    IMAGE,
    SMALL,
    a_batch,
    convolutional,
    dense,
    normal,
    seeded,
    some_gradient,
)
from torch import Tensor, nn

from recon import attacks
from recon.attacks import adapters, from_gradients, from_weights, heads
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.haim_recipe import PublishedSettings
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings
from recon.attacks.separation import FirstLayer, SeparationSettings
from recon.nets.mlp import MLP, affine, one_hidden
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.released import Gradient, Weights
from recon.training import inner_problem, kkt, recipes

Put = Callable[[Any], Any]


def start_of(network: MLP, put: Put) -> Tensor:
    return put(network.flatten(network.init(seeded(), dtype=torch.float64)))


def released(put: Put, *widths: int, **known: Any) -> Any:
    """Of a module with a known start."""
    module = dense(*widths)
    module[1].weight.data += normal(widths[1], 4) @ normal(4, widths[0], seed=2).pow(3) / 9
    return Weights.of(put(module), put(dense(*widths)), **known)


def untrained(put: Put) -> Weights:
    network = MLP((128, 6, 3))
    return Weights(network, start_of(network, put))


def labelled(put: Put, *widths: int) -> Any:
    y = put(torch.tensor([0.0, 1, 1]).double())
    return Weights.of(put(dense(*widths)), y=y, weight_decay=0.01)


def sent(put: Put, n: int = 1, **options: Any) -> Any:
    """By a module, of n images."""
    module = put(convolutional(**options))
    return Gradient.of(module, F.cross_entropy, put(0.3 * normal(n, *IMAGE)), put(torch.arange(n)))


def of_a_batch(put: Put) -> Gradient:
    return sent(put, 2, activation=nn.Softplus, bias=True)


def ours(put: Put) -> Gradient:
    """Of two images, by one of the package's networks."""
    return put(some_gradient(SMALL)[0])


def data(put: Put, n: int = 6, dim: int = 10, classes: int = 2) -> tuple[Tensor, Tensor]:
    return put(normal(n, dim)), put(torch.arange(n) % classes)


def separation(steps: int, put: Put) -> Any:
    settings = SeparationSettings(4, 2, 2.0, iterations=steps, restarts=2, tol=0.0)
    return attacks.by_separation(released(put, 128, 20, 1), IMAGE, settings, seeded())


def decoreco(steps: int, put: Put, outputs: int = 1, **options: Any) -> Any:
    settings = RecoverSettings(4, 2, steps, scale_steps=2, **options)
    return attacks.by_decoreco(released(put, 128, 12, 9, outputs), IMAGE, settings, seeded())


def bilevel(steps: int, put: Put, *widths: int) -> Any:
    boxed = HeavyBall(1.0, 0.5, tol=1e-8, box=(0.0, 1.0))
    settings = from_weights.BilevelSettings(steps, boxed, inner_first=5, inner_next=2)
    return attacks.by_bilevel(labelled(put, *widths), IMAGE, settings, seeded())


def bilevel_with_a_start(steps: int, put: Put) -> Any:
    network, inner = one_hidden(8, 30), LBFGSSettings(max_iter=2)
    star = SpanWeights.of(network, start_of(network, put), 6)
    y = put(torch.tensor([0.0, 1, 1]).double())
    start = put(network.init(seeded(1), dtype=torch.float64))
    attack = SpanAttack(star, y, 0.01, star.project, inner, inner, start=start)
    return reconstruct(attack, put(normal(1, 3, 30)), steps)


def multipliers(steps: int, put: Put, weights: Callable[[Put], Weights]) -> Any:
    pool = from_weights.Pool(put(normal(steps, *IMAGE)), put(torch.arange(steps) % 2))
    return attacks.by_multipliers(weights(put), pool)


def fine_tune(steps: int, put: Put) -> Any:
    images = put(normal(steps, *IMAGE)), put(torch.arange(steps) % 2), put(normal(9, *IMAGE))
    weights = Weights.of(put(convolutional(bias=True)))
    return attacks.by_fine_tune(weights, from_weights.AskedPool(*images))


def nullspace(steps: int, put: Put) -> Any:
    adapter = adapters.Adapter(put(normal(4, 20)), put(normal(12, 4, seed=1)))
    inputs = adapters.Inputs(*(put(normal(steps, k, seed=k)) for k in (20, 20, 12)))
    return attacks.by_adapter_nullspace(adapter, inputs)


def sparse_features(steps: int, put: Put) -> Any:
    public = heads.Public(put(normal(60, 40, seed=1).clamp_min(0)))
    layer = FirstLayer(put(normal(20, 6) @ normal(6, 40, seed=2).clamp_min(0)))
    settings = heads.SparseSettings(6, 12, rounds=2, restarts=2, iterations=steps)
    features = public.features[:5]
    responses = heads.matched_filter(layer.w1, layer.w1[:, 0], features, public)
    found = heads.sparse_features(layer, public, settings, preconditioned=True)
    return found, responses, heads.span_test(layer, features, public, 4)


def dlg(steps: int, put: Put) -> Any:
    settings = from_gradients.DLGSettings(steps)
    return attacks.by_dlg(of_a_batch(put), IMAGE, settings, seeded())


def hybrid(steps: int, put: Put) -> Any:
    return attacks.by_hybrid(sent(put), IMAGE, from_gradients.HybridSettings(steps / 10_000))


def cosine(steps: int, put: Put, gradient: Callable[[Put], Gradient], **options: Any) -> Any:
    settings = from_gradients.CosineSettings(steps, **options)
    return attacks.by_cosine_tv(gradient(put), IMAGE, settings, seeded())


def batch(steps: int, put: Put) -> Any:
    return gauss_newton(put(a_batch()[0]), steps=steps)


def published(steps: int, put: Put) -> Any:
    weights, settings = released(put, 128, 12, 9, 1), PublishedSettings(4, steps)
    return attacks.by_published_recipe(weights, IMAGE, settings, seeded())


def to_kkt(steps: int, put: Put, outputs: int = 1) -> Any:
    (x, y), network = data(put, classes=max(outputs, 2)), MLP((10, 8, outputs), (True, False))
    y = y.double() if outputs == 1 else y
    trained = kkt.train_to_kkt(network, x, y, start_of(network, put), kkt.KKTSettings(steps))
    return trained, kkt.certificate(network, trained.theta_star, x, y)


def objective(network: MLP, put: Put) -> tuple[Tensor, inner_problem.Objective]:
    x, y = data(put)
    return x[None], inner_problem.Objective(network, y.double(), 0.01)


def newton(steps: int, put: Put) -> Any:
    x, energy = objective(affine(10), put)
    return inner_problem.solve_affine(energy, x, tol=-1.0, max_iter=steps)


def by_lbfgs(steps: int, put: Put) -> Any:
    network, settings = MLP((10, 8, 1)), LBFGSSettings(tol=0.0, max_iter=steps)
    x, energy = objective(network, put)
    return inner_problem.solve_lbfgs(energy, x, start_of(network, put)[None], settings)


def by_recipe(steps: int, put: Put, **options: Any) -> Any:
    shape = (2, 6, 6) if "augment" in options else (10,)
    x, y = data(put, 8, math.prod(shape), options.get("classes", 2))
    x = x.float()
    recipe = recipes.Recipe(width=6, steps=steps, stop_loss=0.0, **options)
    return recipes.train(recipe, x, y, seeded(), shape)


ATTACKS = {
    "by_separation": separation,
    "by_decoreco": decoreco,
    "by_published_recipe": published,
    "by_bilevel": lambda steps, put: bilevel(steps, put, 128, 1),
    "by_bilevel__hidden": lambda steps, put: bilevel(steps, put, 128, 6, 1),
    "by_bilevel__with_a_start": bilevel_with_a_start,
    "by_multipliers": partial(multipliers, weights=lambda put: released(put, 128, 6, 1)),
    "by_multipliers__of_our_own": partial(multipliers, weights=untrained),
    "by_fine_tune": fine_tune,
    "by_adapter_nullspace": nullspace,
    "by_rgap": lambda steps, put: attacks.by_rgap(ours(put), IMAGE),
    "by_dlg": dlg,
    "by_cosine_tv": partial(cosine, gradient=ours),
    "by_cosine_tv__of_a_module": partial(
        cosine, gradient=of_a_batch, whole=True, descent=from_gradients.GEIPING_DESCENT
    ),
    "by_hybrid": hybrid,
    "by_gauss_newton": lambda steps, put: attacks.by_gauss_newton(ours(put), IMAGE),
}
BELOW = {
    "sparse_features": sparse_features,
    "gauss_newton__of_a_batch": batch,
}
TRAINERS = {
    "train_to_kkt": to_kkt,
    "train_to_kkt__of_classes": partial(to_kkt, outputs=3),
    "solve_affine": newton,
    "solve_lbfgs": by_lbfgs,
    "train__gd": partial(by_recipe, optimiser="gd", label_noise=0.2),
    "train__sgd": partial(by_recipe, batch=4),
    "train__adam": partial(by_recipe, batch=4, optimiser="adam", start="small"),
    "train__adamw": partial(by_recipe, batch=4, optimiser="adamw", classes=3),
    "train__shifted": partial(by_recipe, augment=("flip", "shift"), start="kaiming"),
    "train__dropout": partial(by_recipe, dropout=0.3),
    "train__private": partial(by_recipe, epsilon=8.0),
}
CASES = ATTACKS | BELOW | TRAINERS
