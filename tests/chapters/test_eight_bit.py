"""Integers with one classifier: its weights against autograd, rounding that keeps outputs, errors
handed on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from companion.chapters.linear import eight_bit as eb
from recon.analysis.solution_set import residual
from recon.errors import ReconError
from recon.images import photos
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, with_ones

DECAY = 1e-3


def toy_images(y, seed):
    """Images of 30 pixels, of which some are classified with great margins."""
    direction = 40 * torch.randn(30, generator=torch.Generator().manual_seed(0))
    noise = 30 * torch.randn(len(y), 30, generator=torch.Generator().manual_seed(seed))
    return (128 + noise + (2 * y[:, None] - 1) * direction).clamp(0, 255).to(torch.uint8)


Y = torch.tensor([0, 1]).repeat_interleave(10)
PIXELS = toy_images(Y, 1)
OTHERS_Y = torch.tensor([0, 1]).repeat_interleave(300)
OTHERS = eb.Others(toy_images(OTHERS_Y, 2), OTHERS_Y, ~torch.eye(600, dtype=torch.bool))


def test_training_ends_where_the_gradient_is_nothing():
    theta = eb.classifier(PIXELS, Y, DECAY)
    x = eb.inputs(PIXELS)
    assert x.min() >= -0.5 and x.max() <= 0.5
    gradient = Objective(affine(30), Y.double(), DECAY).grad(theta[None], x[None])
    assert gradient.norm() < 1e-13 * theta.norm()


def test_weights_keep_their_digits_where_the_margin_is_large():
    weights = eb.weights_of(torch.tensor([40.0, -40.0, 1.0]).double(), torch.tensor([1, 1, 0]))
    logits = torch.tensor([-40.0, 0.0, 1.0]).double()
    expected = torch.stack([logits[0].exp(), logits[1].exp(), -logits[2].sigmoid()])
    torch.testing.assert_close(weights, expected, rtol=1e-12, atol=0)


def test_residual_is_that_of_the_solution_set():
    theta = torch.linspace(-1, 1, 31, dtype=torch.float64)
    base, expected = DECAY * theta, residual(eb.inputs(PIXELS), Y.double(), theta, DECAY)
    rest = eb.left_of(base, PIXELS[:5], Y[:5], theta, 20)
    for found in (
        eb.left_of(base, PIXELS, Y, theta, 20),
        eb.left_of(rest, PIXELS[5:], Y[5:], theta, 20),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_rounding_keeps_the_outputs():
    generator = torch.Generator().manual_seed(1)
    values = 255 * torch.rand(4, 500, generator=generator, dtype=torch.float64)
    theta = torch.randn(500, generator=generator, dtype=torch.float64)
    rounded = eb.round_keeping(values, theta)
    assert torch.equal(rounded, rounded.round()) and rounded.min() >= 0 and rounded.max() <= 255
    assert (rounded - values).abs().max() < 1
    error = ((rounded - values) @ theta).abs()
    assert (error < 0.3 * ((values.round() - values) @ theta).abs()).all()


def test_diffusion_hands_its_error_on():
    """Integers nearer to the solution set than rounded ones; on photographs see
    tests/press/test_twins.py.
    """
    target = eb.classifier(PIXELS, Y, 1e-4).float()
    chosen = eb.ladder(OTHERS, target.double(), 20, 1e-5, 6)
    labels, theta = OTHERS_Y[chosen].double(), target.double()
    start = OTHERS.pixels[chosen].double().clamp(6, 249)
    real = eb.project(1e-4 * theta, start, labels, theta, 20)
    integers = eb.diffuse(start, labels, theta, 1e-4)

    def distance(values):
        return eb.left_of(1e-4 * theta, values, labels, theta, 20).norm()

    assert torch.equal(integers, integers.round())
    assert integers.min() >= 0 and integers.max() <= 255
    assert distance(real) < 1e-3 * distance(start)
    assert distance(integers) < 0.1 * distance(real.round())


def test_agreement_is_counted_bit_by_bit():
    target = torch.tensor([1.0, 2.0, -3.0])
    assert eb.agreeing(target * torch.tensor([1, 1, 1 + 4e-7], dtype=torch.float64), target) == 2


def test_ladder_has_half_of_each_class_and_its_rungs():
    theta = eb.classifier(PIXELS, Y, DECAY)
    chosen = eb.ladder(OTHERS, theta, 20, 1e-8, 6)
    assert len(set(chosen.tolist())) == 20 and OTHERS_Y[chosen].tolist() == [0] * 10 + [1] * 10
    weight = eb.weights_of(with_ones(eb.inputs(OTHERS.pixels)) @ theta, OTHERS_Y).abs()
    plain = torch.cat([torch.arange(10), torch.arange(300, 310)])
    assert weight[chosen].min() < weight[plain].min()
    crowded = replace(OTHERS, apart=torch.zeros(600, 600, dtype=torch.bool))
    with pytest.raises(ReconError, match="10 photographs of class 0 are needed, and there are 1"):
        eb.ladder(crowded, theta, 20, 1e-8, 6)


def test_patches_are_outside_the_training_thirds_and_lie_apart():
    pool = load_pool("photos")
    data = partition(pool, 88)
    patches = eb.others(pool, data.train.index)
    rows = {tuple(row) for row in patches.pixels[:, ::50].tolist()}
    train, held_out = (
        {tuple(row) for row in (part.flat[:, ::50] * 255).round().to(torch.uint8).tolist()}
        for part in (data.train, data.held_out)
    )
    assert len(patches.y) > 5000 and not train & rows
    assert held_out & rows  # patches of the pool are among them
    assert torch.equal(patches.apart, patches.apart.mT) and not patches.apart.diagonal().any()
    images = patches.pixels[:2].unflatten(1, (3, photos.PATCH, photos.PATCH))
    # the next one is four pixels below
    assert torch.equal(images[0, :, 4:], images[1, :, :-4])
    assert not patches.apart[0, 1] and patches.apart[0, -1]
