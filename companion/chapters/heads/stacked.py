"""Many heads trained at once, by the recipes of the chapter: those asked about, and their shadows.

The gradient of the first layer lies in the span of the images that a head is trained on. Under SGD
so does all that training writes there, but for what decay leaves of the initial weights and, under
DP-SGD, the noise: there n coordinates an image suffice, and the rest is added in the end. That is
exact, but for rounding. Adam and AdamW need all coordinates.
"""

import warnings

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from recon.training.recipes import OPTIMISERS, Recipe, build

Heads = list[Tensor]  # of k heads: weights and biases (k, h, d), (k, h), (k, c, h), (k, c)


def passed(heads: Heads, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs (k, n, c) and hidden units (k, n, h) for images x (k, n, d) of classes y (k, n), and
    the gradients of each loss there: at the outputs, and before the ReLU.
    """
    w1, b1, w2, b2 = heads
    before = torch.baddbmm(b1[:, None], x, w1.mT)
    hidden = before.relu()
    outputs = torch.baddbmm(b2[:, None], hidden, w2.mT)
    if outputs.shape[2] == 1:
        residual = outputs.sigmoid() - y[..., None]
    else:
        residual = outputs.softmax(2) - one_hot(y, outputs.shape[2])
    return outputs, hidden, residual, (residual @ w2) * (before > 0)


def train_heads(
    recipe: Recipe, x: Tensor, y: Tensor, generator: torch.Generator
) -> tuple[Heads, Tensor]:
    """Heads trained by the recipe on x (k, n, d) and y (k, n), and initial weights (k, h, d)."""
    k, n, d = x.shape
    modules = [build(recipe, d, generator) for _ in range(k)]
    parts = zip(*(module.parameters() for module in modules), strict=True)
    heads = [torch.stack(part).detach() for part in parts]
    initial, rest, noise = heads[0].clone(), torch.ones(1), 0.0
    basis = torch.linalg.qr(x.mT).Q.mT if recipe.optimiser == "sgd" else torch.eye(d)[None]
    if recipe.optimiser == "sgd":
        x, heads[0] = x @ basis.mT, initial @ basis.mT
    if recipe.epsilon is not None:
        noise = _noise_multiplier(recipe, n) * recipe.clip / n
    momentum = {"momentum": recipe.momentum} if recipe.optimiser == "sgd" else {}
    optimiser = OPTIMISERS[recipe.optimiser](
        [*heads, rest], lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True, **momentum
    )
    rest.grad = torch.zeros(1)
    batch, of, images, labels = min(recipe.batch or n, n), torch.arange(k)[:, None], x, y
    for _ in range(recipe.steps):
        if batch < n:
            rows = torch.rand(k, n, generator=generator).argsort(1)[:, :batch]
            images, labels = x[of, rows], y[of, rows]
        _, hidden, residual, delta = passed(heads, images, labels)
        share = torch.tensor(1 / batch)
        if recipe.epsilon is not None:
            squares = (delta.square().sum(2) * (images.square().sum(2) + 1)) + (
                residual.square().sum(2) * (hidden.square().sum(2) + 1)
            )
            share = (recipe.clip / squares.sqrt()).clamp_max(1)[..., None] / n
        residual, delta = residual * share, delta * share
        slopes = delta.mT @ images, delta.sum(1), residual.mT @ hidden, residual.sum(1)
        for part, slope in zip(heads, slopes, strict=True):
            part.grad = slope
            if noise:
                part.grad = slope + noise * torch.randn(slope.shape, generator=generator)
        optimiser.step()
    if recipe.optimiser == "sgd":
        drift = (
            recipe.lr * noise * recipe.steps**0.5 * torch.randn(initial.shape, generator=generator)
        )
        outside = rest * initial + drift
        heads[0] = heads[0] @ basis + outside - (outside @ basis.mT) @ basis
    return [part.detach() for part in heads], initial


def _noise_multiplier(recipe: Recipe, n: int) -> float:
    """Of full batches for (ε, 1/(10 n)), as in `recon.training.recipes`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.accountants.utils import get_noise_multiplier
    return get_noise_multiplier(
        target_epsilon=recipe.epsilon,
        target_delta=1 / (10 * n),
        sample_rate=1.0,
        steps=recipe.steps,
        accountant="rdp",
    )
