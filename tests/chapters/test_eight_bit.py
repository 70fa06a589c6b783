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


@pytest.fixture(scope="module")
def toy():
    """Twenty training images of 30 pixels, and 600 others of which some are classified with great
    margins.
    """
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0, 1]).repeat_interleave(10)
    others_y = torch.tensor([0, 1]).repeat_interleave(300)
    direction = 40 * torch.randn(30, generator=generator)

    def draw(labels):
        noise = 30 * torch.randn(len(labels), 30, generator=generator)
        return (128 + noise + (2 * labels[:, None] - 1) * direction).clamp(0, 255).to(torch.uint8)

    return draw(y), y, draw(others_y), others_y


def test_training_ends_where_the_gradient_is_nothing(toy):
    pixels, y, _, _ = toy
    theta = eb.classifier(pixels, y, DECAY)
    x = eb.inputs(pixels)
    assert x.min() >= -0.5 and x.max() <= 0.5
    gradient = Objective(affine(30), y.double(), DECAY).grad(theta[None], x[None])
    assert gradient.norm() < 1e-13 * theta.norm()


def test_weights_keep_their_digits_where_the_margin_is_large():
    logits = torch.tensor([40.0, -40.0, 1.0], dtype=torch.float64)
    found = eb.weights_of(logits, torch.tensor([1, 1, 0]))
    expected = torch.tensor(
        [torch.exp(torch.tensor(-40.0, dtype=torch.float64)), 1.0, -torch.sigmoid(logits[2])]
    )
    torch.testing.assert_close(found, expected.double(), rtol=1e-12, atol=0)


def test_residual_is_that_of_the_solution_set(toy):
    pixels, y, _, _ = toy
    theta = torch.linspace(-1, 1, 31, dtype=torch.float64)
    digits = eb.Digits(theta, 20, eb.EightBitSettings(weight_decay=DECAY))
    whole = eb.Rest(torch.arange(20), pixels.double(), y.double(), DECAY * theta)
    expected = residual(eb.inputs(pixels), y.double(), theta, DECAY)
    torch.testing.assert_close(digits.residual(whole), expected, rtol=1e-12, atol=1e-14)
    rest = whole.take(slice(5, None), base=digits.residual(whole.take(slice(5))))
    torch.testing.assert_close(digits.residual(rest), expected, rtol=1e-12, atol=1e-14)


def test_rounding_keeps_the_outputs():
    generator = torch.Generator().manual_seed(1)
    values = 255 * torch.rand(4, 500, generator=generator, dtype=torch.float64)
    theta = torch.randn(500, generator=generator, dtype=torch.float64)
    found = eb.round_keeping(values, theta)
    assert torch.equal(found, found.round()) and found.min() >= 0 and found.max() <= 255
    assert (found - values).abs().max() < 1
    plain, kept = ((x - values) @ theta for x in (values.round(), found))
    assert (kept.abs() < 0.3 * plain.abs()).all()


def test_diffusion_hands_its_error_on(toy):
    """Integers nearer to the solution set than rounded ones; on photographs see
    tests/press/test_twins.py.
    """
    pixels, y, others, others_y = toy
    settings = eb.EightBitSettings(weight_decay=1e-4, finest=1e-5, rungs=(6,))
    target = eb.classifier(pixels, y, 1e-4).float()
    chosen = eb.ladder(eb.Others(others, others_y, None), target.double(), 20, 1e-5, 6)
    digits, labels = eb.Digits(target.double(), 20, settings), others_y[chosen].double()
    start = others[chosen].double().clamp(6, 249)
    made = eb.diffuse(start, labels, digits)
    assert torch.equal(made, made.round()) and made.min() >= 0 and made.max() <= 255
    base = 1e-4 * digits.theta
    real = digits.returned(eb.Rest(torch.arange(20), start, labels, base))
    assert digits.residual(real).norm() < 1e-3 * digits.residual(replace(real, values=start)).norm()
    rounded, diffused = (
        digits.residual(replace(real, values=v)).norm() for v in (real.values.round(), made)
    )
    assert diffused < 0.1 * rounded
    twin = eb.twin(pixels, y, eb.Others(others, others_y, None), settings)
    assert twin.pixels.dtype == torch.uint8 and torch.equal(twin.target, target)
    # twenty toys have no digits fine enough
    assert twin.largest_relative_difference < 0.02 and twin.agree < 31


def test_agreement_is_counted_bit_by_bit(toy):
    target = torch.tensor([1.0, 2.0, -3.0])
    made = eb.Twin(
        torch.zeros(1),
        torch.zeros(1),
        target * (1 + 1e-7 * torch.tensor([0, 0, 4.0]).double()),
        target,
    )
    assert made.agree == 2 and made.largest_relative_difference == pytest.approx(4e-7, rel=1e-6)


def test_ladder_has_half_of_each_class_and_its_rungs(toy):
    pixels, y, others, others_y = toy
    theta = eb.classifier(pixels, y, DECAY)
    chosen = eb.ladder(eb.Others(others, others_y, None), theta, 20, 1e-8, 6)
    assert len(set(chosen.tolist())) == 20 and others_y[chosen].tolist() == [0] * 10 + [1] * 10
    weight = eb.weights_of(with_ones(eb.inputs(others)) @ theta, others_y).abs()
    plain = torch.cat([torch.arange(10), torch.arange(300, 310)])
    assert weight[chosen].min() < weight[plain].min()
    apart = torch.ones(600, 600, dtype=torch.bool)
    apart[chosen[0]] = False
    with pytest.raises(ReconError, match="10 photographs of class 0 are needed, and there are"):
        eb.ladder(eb.Others(others, others_y, apart & False), theta, 20, 1e-8, 6)


def test_patches_are_outside_the_training_thirds_and_lie_apart():
    pool = load_pool("photos")
    data = partition(pool, 88)
    found = eb.others(pool, data.train.index)
    assert (
        found.pixels.dtype == torch.uint8
        and found.pixels.shape == (len(found.y), 3072)
        and len(found.y) > 5000
    )
    train = {tuple(row) for row in (data.train.flat * 255).round().to(torch.uint8).tolist()}
    assert not train & {tuple(row) for row in found.pixels[::7].tolist()}
    assert torch.equal(found.apart, found.apart.mT) and not found.apart.diagonal().any()
    held_out = {tuple(row) for row in (data.held_out.flat * 255).round().to(torch.uint8).tolist()}
    # patches of the pool are among them
    assert held_out & {tuple(row) for row in found.pixels.tolist()}


def test_neighbouring_patches_are_not_apart():
    pool = load_pool("photos")
    found = eb.others(pool, torch.arange(0))
    size = photos.PATCH
    first, nearby = (found.pixels[k].unflatten(0, (3, size, size)) for k in (0, 1))
    # the next one is four pixels below
    assert eb.APART == 16 and torch.equal(first[:, 4:], nearby[:, :-4])
    assert not found.apart[0, 1] and found.apart[0, -1]
